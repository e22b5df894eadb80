// Builds the page into crates/admin/console, from where the proxy's binary takes it. With
// --check it builds nothing, and fails unless what is there is what the sources make.
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const target = join(here, "../crates/admin/console");
const isCheck = process.argv.includes("--check");

/** The files that the page is made from, in a fixed order. */
function sources() {
  const found = readdirSync(join(here, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(here.length));
  return [...found, "build.mjs", "package.json", "package-lock.json", "tsconfig.json"].sort();
}

/** The hash of them all, as `xtask` computes it too. */
function sourcesHash() {
  const all = createHash("sha256");
  for (const path of sources()) {
    all.update(`${path} ${sha256(readFileSync(join(here, path)))}\n`);
  }
  return all.digest("hex");
}

function sha256(bytes) {
  return createHash("sha256").update(bytes).digest("hex");
}

const folder = mkdtempSync(join(tmpdir(), "trunkline-console-"));
try {
  await build({
    absWorkingDir: here,
    entryPoints: { console: "src/main.tsx" },
    outdir: folder,
    bundle: true,
    minify: true,
    format: "iife",
    target: ["chrome109", "firefox115", "safari16"],
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "inline",
    charset: "utf8",
    // The page knows which one it is, and sees when the proxy has another one.
    define: { BUNDLE: JSON.stringify(sourcesHash()) },
  });
  const files = {
    "console.js": readFileSync(join(folder, "console.js")),
    "console.css": readFileSync(join(folder, "console.css")),
    "index.html": readFileSync(join(here, "src/index.html")),
    "icon.svg": readFileSync(join(here, "src/icon.svg")),
  };
  // As `sha256sum` writes it: `xtask test` compares it with the files, without these tools.
  const sums = Object.entries(files).map(([name, bytes]) => `${sha256(bytes)}  ${name}\n`);
  files["files.sha256"] = Buffer.from(sums.join(""));
  files["sources.sha256"] = Buffer.from(`${sourcesHash()}\n`);
  let total = 0;
  for (const [name, bytes] of Object.entries(files)) {
    total += bytes.length;
    const path = join(target, name);
    if (!isCheck) {
      writeFileSync(path, bytes);
    } else if (!readFileSync(path).equals(bytes)) {
      throw new Error(`crates/admin/console/${name} is not what the sources make`);
    }
  }
  console.log(`${isCheck ? "checked" : "built"} ${Object.keys(files).length} files, ${total} bytes`);
} finally {
  rmSync(folder, { recursive: true });
}
