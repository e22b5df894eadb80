// Drives the console in a real browser: every page, the changes, what can go wrong. It is started
// by `cargo xtask console`, which obeys lines that begin with `order: `.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const given = JSON.parse(process.env.CONSOLE_TEST);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const PATIENCE = 20_000;
const DESKTOP = { width: 1360, height: 900 };
const PHONE = { width: 390, height: 844 };
const PAGES = ["now", "statements", "sessions", "servers", "rules", "configuration", "events", "cache", "tenants", "firewall"];
/** All that a page may load, in bytes. */
const PAGE_LEN_MAX = 300_000;

async function order(text) {
  console.log(`order: ${text}`);
  const { value } = await answers.next();
  return value;
}

function ensure(is, message) {
  if (!is) throw new Error(message);
}

async function within(what, ask) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    if (await ask()) return;
    ensure(Date.now() < end, `${what}: not within ${PATIENCE} ms`);
    await new Promise((then) => setTimeout(then, 100));
  }
}

const browser = await chromium.launch({ executablePath: given.browser, args: ["--no-sandbox"] });
const complaints = [];

/** A browser of its own; whatever it complains of is a failure at the end. */
async function visit(viewport, colorScheme = "light") {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport, colorScheme });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  page.on("pageerror", (error) => complaints.push(`page error: ${error.stack ?? error.message}`));
  page.on("console", (message) => {
    const text = message.text();
    // What the test provokes itself: no login yet, refusals, a proxy that is away.
    const isExpected = /status of (400|401|409|429|503)|ERR_CONNECTION|ERR_EMPTY|net::ERR|WebSocket/.test(text);
    if (message.type() === "error" && !isExpected) complaints.push(`console: ${text}`);
  });
  page.on("request", (request) => {
    if (!/^(data:|blob:)/.test(request.url()) && !request.url().startsWith(given.url)) {
      complaints.push(`asked elsewhere: ${request.url()}`);
    }
  });
  if (given.page) {
    for (const [path, name] of [["/", "index.html"], ["/console.js", "console.js"], ["/console.css", "console.css"]]) {
      await page.route(given.url + path, async (route) => {
        const response = await route.fetch();
        await route.fulfill({ response, body: readFileSync(join(given.page, name)) });
      });
    }
  }
  return page;
}

async function logIn(page, user, password) {
  await page.fill("input[name=user]", user);
  await page.fill("input[name=password]", password);
  await page.click("button[type=submit]");
}

async function open(page, name) {
  await page.goto(`${given.url}/#/${name}`);
  await page.waitForSelector(`nav a[aria-current=page][href="#/${name.split("/")[0]}"]`);
  await page.waitForSelector(".dot.live");
  await page.waitForSelector("main .panel");
}

/** Nothing that axe calls serious, and nothing wider than the window. */
async function inspect(page, what) {
  // Not by a script element: the page's policy would refuse it.
  const found = await page.evaluate(`${axe}; axe.run(document, { resultTypes: ["violations"] })`);
  const serious = found.violations.filter((it) => ["serious", "critical"].includes(it.impact));
  const told = serious.map((it) => `${it.id}: ${it.nodes.slice(0, 3).map((node) => `${node.html} ${node.failureSummary}`).join("; ")}`);
  ensure(serious.length === 0, `${what}: ${told.join("\n")}`);
  const wide = await page.evaluate("document.scrollingElement.scrollWidth - innerWidth");
  ensure(wide <= 0, `${what}: ${wide} px wider than the window`);
}

async function picture(page, name) {
  await page.screenshot({ path: join(given.pictures, `${name}.png`), animations: "disabled" });
}

/** An operator of their own beside the page. */
async function operator() {
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  const post = (path, data, csrf = "") =>
    context.request.post(given.url + path, {
      data,
      headers: { "X-CSRF-Token": csrf, "Content-Type": "application/json", Origin: given.url },
    });
  const session = await (await post("/console/login", { user: "admin", password: "admin" })).json();
  return async (sql) => {
    const response = await post("/console/statement", { sql }, session.csrf);
    ensure(response.ok(), `${sql}: ${await response.text()}`);
    return response.json();
  };
}

async function step(what, test) {
  const begin = Date.now();
  await test();
  console.log(`   ${what}: ${((Date.now() - begin) / 1000).toFixed(1)} s`);
}

async function passwords(page) {
  let bytes = 0;
  const count = async (response) => {
    if (/\/($|console\.(js|css)|icon)/.test(response.url().slice(given.url.length))) {
      bytes += (await response.body().catch(() => Buffer.alloc(0))).length;
    }
  };
  page.on("response", count);
  await page.goto(given.url);
  await page.waitForSelector("input[name=user]");
  await inspect(page, "login");
  await picture(page, "login");
  await logIn(page, "admin", "wrong");
  await page.waitForSelector("[role=alert]:has-text('password is wrong')");
  await logIn(page, "admin", "admin");
  await page.waitForSelector(".dot.live");
  page.off("response", count);
  ensure(bytes > 10_000 && bytes < PAGE_LEN_MAX, `the page has ${bytes} bytes`);
  const cookies = await page.context().cookies();
  const cookie = cookies.find((it) => it.name === "__Host-trunkline");
  ensure(cookie?.httpOnly && cookie.secure && cookie.sameSite === "Strict", JSON.stringify(cookies));
  ensure((await page.evaluate("document.cookie")) === "", "a script sees the cookie");
}

async function statements(page) {
  await open(page, "statements");
  await page.waitForSelector("td .statement");
  await page.click("th button:has-text('Count')");
  await page.waitForSelector("th[aria-sort=descending]:has-text('Count')");
  await page.fill("input.search", "onerror");
  await page.waitForSelector("td .statement:has-text('onerror')");
  await page.fill("input.search", "");
  const first = page.locator("td .statement").first();
  const link = await first.getAttribute("href");
  // A deep link, in a page of its own.
  const other = await page.context().newPage();
  await other.goto(`${given.url}/${link}`);
  await other.waitForSelector("h2:has-text('Digest 0x')");
  await other.waitForSelector(".way li");
  await inspect(other, "one digest");
  await other.waitForSelector(".spark polyline", { state: "attached" });
  await picture(other, "digest");
  await other.close();
}

/** Seconds that the history knows of the last hour, as the page is told. */
async function known(page) {
  const past = await page.evaluate("fetch('/console/history?last=3600').then((told) => told.json())");
  return past.points.filter((point) => point[1] !== null && point[1] > 0).length && past.known;
}

async function past(page) {
  await open(page, "now");
  await page.waitForSelector(".spans a[aria-current]:has-text('Hour')");
  await page.waitForSelector(".chart[aria-label*='last hour']");
  await within("two frames of traffic", async () => (await known(page)) >= 20);
  for (const [title, name, said] of [["Day", "day", "day"], ["Week", "week", "week"], ["10 minutes", "live", "ten minutes"]]) {
    await page.click(`.spans a:has-text('${title}')`);
    await page.waitForSelector(`.chart[aria-label*='last ${said}']`);
    ensure(page.url().endsWith(`#/now/${name}`), page.url());
  }
  ensure((await page.locator(".over .quiet").count()) === 0, "there is no history");
  // A deep link to a digest's day.
  await open(page, "statements");
  await page.waitForSelector("td .statement");
  await page.waitForSelector(".spark[aria-label*='last hour'] polyline", { state: "attached" });
  const link = await page.locator("td .statement").first().getAttribute("href");
  await page.goto(`${given.url}/${link}/day`);
  await page.waitForSelector(".spans a[aria-current]:has-text('Day')");
  await page.waitForSelector(".chart[aria-label='executions and errors per second of the digest over the last day']");
  const digest = link.split("/").at(-1);
  const told = await page.evaluate(`fetch('/console/history?last=86400&digests=${digest}').then((told) => told.json())`);
  ensure(told.digests[digest].some((five) => five[0] > 0), JSON.stringify(told));
  await inspect(page, "the past of a digest");
}

async function sessions(page) {
  await open(page, "sessions");
  const row = page.locator("tr:has(.badge:text-is('transaction'))").filter({ hasText: "demo" }).filter({ hasText: "idle" });
  await row.first().waitFor();
  ensure((await order("holder")) === "connected", "the holder has gone already");
  await page.fill("input.search", "lock");
  const held = page.locator("tbody tr");
  await held.first().waitFor();
  ensure((await held.count()) === 1, "one session has a lock");
  await held.locator("button:has-text('Kill')").click();
  await page.waitForSelector("dialog[open]");
  await inspect(page, "kill");
  await page.click("dialog button:has-text('Kill the session')");
  await page.waitForSelector("[role=status]:has-text('was ended')");
  await within("the session has gone", async () => (await held.count()) === 0);
  ensure((await order("holder")) === "gone", "the holder is still there");
}

async function route(page) {
  await open(page, "rules");
  await page.fill("input[name=route-user]", "demo");
  await page.fill("input[name=route-schema]", "shop");
  await page.fill("textarea[name=route-sql]", "SELECT amount FROM orders WHERE id = 7 FOR UPDATE");
  await page.click("button:has-text('Show the way')");
  await page.waitForSelector(".way li:has-text('hostgroup')");
  const way = await page.textContent(".way");
  ensure(/10/.test(way) && /rule/.test(way), way);
  await picture(page, "rules");
  await page.fill("textarea[name=route-sql]", "'");
  await page.click("button:has-text('Show the way')");
  await page.waitForSelector(".way li, [role=alert]");
}

async function configuration(page) {
  const other = await operator();
  await open(page, "configuration");
  await page.waitForSelector("td:has-text('MYSQL SERVERS')");
  const press = (title, module) => page.click(`button[aria-label="${title} … ${module}"]`);
  // Somebody edits, and the page shows what differs.
  await other("INSERT INTO mysql_servers (hostgroup_id, hostname, port, comment) VALUES (77, '127.0.0.9', 3306, 'spare')");
  await page.click("button:has-text('Refresh')");
  await page.waitForSelector(".diff .added:has-text('127.0.0.9')");
  await inspect(page, "a difference");
  await picture(page, "configuration");
  // While the dialog is open, another operator loads something else.
  await press("Load", "MYSQL SERVERS");
  await page.waitForSelector("dialog .diff .added");
  await other("UPDATE mysql_servers SET weight = 5 WHERE hostgroup_id = 77");
  await page.click("dialog button:text-is('Load')");
  await page.waitForSelector("dialog [role=alert]:has-text('not what is shown')");
  await inspect(page, "a conflict");
  await picture(page, "conflict");
  let running = await other("SELECT count(*) AS n FROM runtime_mysql_servers WHERE hostgroup_id = 77");
  ensure(running.rows[0].n === 0, "it was loaded in spite of the conflict");
  // The same by another version: what differs is the same, but another configuration runs.
  await page.click("dialog button:has-text('Look again')");
  await page.waitForSelector("dialog .diff .added:has-text('5')");
  await other("SET mysql-long_query_time = 1234");
  await other("LOAD MYSQL VARIABLES TO RUNTIME");
  await page.click("dialog button:text-is('Load')");
  await page.waitForSelector("dialog [role=alert]:has-text('runs now')");
  await page.click("dialog button:has-text('Look again')");
  await page.waitForSelector("dialog .diff .added");
  await page.click("dialog button:text-is('Load')");
  await page.waitForSelector("[role=status]:has-text('LOAD MYSQL SERVERS TO RUNTIME: done')");
  running = await other("SELECT count(*) AS n FROM runtime_mysql_servers WHERE hostgroup_id = 77");
  ensure(running.rows[0].n === 1, "it was not loaded");
  // A load that fails says why, and changes nothing.
  await other("INSERT INTO mysql_query_rules (rule_id, active, match_digest) VALUES (99, 1, '((')");
  await page.click("button:has-text('Refresh')");
  await page.waitForSelector(".diff .added:has-text('((')");
  await press("Load", "MYSQL QUERY RULES");
  await page.waitForSelector("dialog .diff .added");
  await page.click("dialog button:text-is('Load')");
  await page.waitForSelector("dialog [role=alert]:has-text('99')");
  await page.click("dialog button:text-is('Cancel')");
  await other("DELETE FROM mysql_query_rules WHERE rule_id = 99");
  // Back to what was loaded before.
  await press("Save", "MYSQL SERVERS");
  await page.waitForSelector("dialog .diff .added");
  await page.click("dialog button:text-is('Save')");
  await page.waitForSelector("[role=status]:has-text('SAVE MYSQL SERVERS TO DISK: done')");
  const back = () => page.locator("tr:has-text('LOAD MYSQL SERVERS TO RUNTIME') button:has-text('To this')").first().click();
  await back();
  await page.waitForSelector("dialog button.danger:enabled");
  ensure((await page.locator("dialog .notice, dialog .diff").count()) === 0, "nothing is unsaved, and something is said to be lost");
  await page.click("dialog button:text-is('Cancel')");
  // What another operator edits is only in MEMORY: it is shown, and compared again before it is overwritten.
  const edit = (host) => other(`INSERT INTO mysql_servers (hostgroup_id, hostname, port, comment) VALUES (78, '${host}', 3306, 'unsaved')`);
  const edited = async () => (await other("SELECT count(*) AS n FROM mysql_servers WHERE hostgroup_id = 78")).rows[0].n;
  await edit("127.0.0.10");
  await back();
  await page.waitForSelector("dialog .notice:has-text('are lost')");
  await page.waitForSelector("dialog .diff .added:has-text('127.0.0.10')");
  await inspect(page, "edits that would be lost");
  await edit("127.0.0.11");
  await page.click("dialog button:has-text('Put it into MEMORY')");
  await page.waitForSelector("dialog [role=alert]:has-text('not what is shown')");
  ensure((await edited()) === 2, "edits were overwritten in spite of the conflict");
  await page.click("dialog button:has-text('Look again')");
  await page.waitForSelector("dialog .diff .added:has-text('127.0.0.11')");
  // What is loaded or saved is not lost.
  await other("SAVE MYSQL SERVERS TO DISK");
  await page.click("dialog button:has-text('Put it into MEMORY')");
  await page.waitForSelector("dialog [role=alert]:has-text('not what is shown')");
  await page.click("dialog button:has-text('Look again')");
  await page.waitForSelector("dialog .notice", { state: "detached" });
  await page.click("dialog button:has-text('Put it into MEMORY')");
  await page.waitForSelector("[role=status]:has-text('FROM REVISION')");
  ensure((await edited()) === 0, "the revision is not in MEMORY");
  await other("SAVE MYSQL SERVERS TO DISK");
  const lines = JSON.stringify(await other("SELECT * FROM disk.config_history ORDER BY revision DESC LIMIT 5"));
  ensure(lines.includes("admin@127.0.0.1"), lines);
}

async function switchover(page) {
  await open(page, "servers");
  await page.waitForSelector("tr:has(.badge:text-is('writer'))");
  const before = await page.textContent("tr:has(.badge:text-is('writer')) code");
  await page.click("button:text-is('Switch over …')");
  await page.click("dialog button:text-is('Check')");
  await page.waitForSelector("dialog button:has-text('Switch over now')");
  await inspect(page, "a checked switchover");
  await picture(page, "switchover");
  await page.click("dialog button:has-text('Switch over now')");
  await page.waitForSelector("dialog td:has-text('promote')");
  await page.click("dialog button:text-is('Close')");
  await within("another writer", async () => {
    const now = await page.locator("tr:has(.badge:text-is('writer')) code").first().textContent().catch(() => before);
    return now !== before;
  });
  await open(page, "events");
  await page.waitForSelector("td .badge:has-text('switchover')");
  await page.waitForSelector("td:has-text('LOAD MYSQL SERVERS TO RUNTIME')");
  await picture(page, "events");
}

async function many(page) {
  ensure((await order("digests")) === "done", "no digests");
  await open(page, "statements");
  await page.waitForSelector("td .statement");
  const begin = Date.now();
  await page.fill("input.search", "c9999 ");
  await page.waitForSelector("td .statement:has-text('c9999')");
  const found = Date.now() - begin;
  await page.fill("input.search", "");
  await page.waitForSelector("p:has-text('The first 200')");
  const sorted = Date.now();
  await page.click("th button:has-text('Last seen')");
  await page.waitForSelector("th[aria-sort=descending]:has-text('Last seen')");
  await within("the first rows", async () => (await page.locator("td .statement").count()) === 200);
  const told = `found in ${found} ms, sorted in ${Date.now() - sorted} ms`;
  console.log(`   10,000 digests: ${told}`);
  ensure(found < 5_000 && Date.now() - sorted < 8_000, told);
}

async function looks() {
  const page = await visit(DESKTOP);
  await page.goto(given.url);
  await logIn(page, "stats", "stats");
  for (const name of PAGES) {
    await open(page, name);
    await inspect(page, `${name}, for who may only look`);
    ensure((await page.locator("button.danger").count()) === 0, `${name}: something can be changed`);
    ensure((await page.locator("main [role=alert]").count()) === 0, `${name}: ${await page.locator("main [role=alert]").allTextContents()}`);
  }
  await page.context().close();
}

/** Who operates may end sessions, switch over and ask for routes, and see no configuration. */
async function operates() {
  const page = await visit(DESKTOP);
  await page.goto(given.url);
  await logIn(page, "operator", "operator");
  await page.waitForSelector(".who:has-text('may operate')");
  await open(page, "sessions");
  await page.waitForSelector("tr button:has-text('Kill')");
  await open(page, "servers");
  await page.waitForSelector("button:text-is('Switch over …')");
  await open(page, "cache");
  await page.click("button:has-text('Empty the cache')");
  await page.click("dialog button.danger");
  await page.waitForSelector("dialog", { state: "detached" });
  await open(page, "statements");
  const link = await page.locator("td .statement").first().getAttribute("href");
  await page.goto(`${given.url}/${link}`);
  await page.waitForSelector(".way li");
  for (const name of PAGES) {
    await open(page, name);
    ensure((await page.locator("main [role=alert]").count()) === 0, `${name}: ${await page.locator("main [role=alert]").allTextContents()}`);
  }
  await open(page, "configuration");
  ensure((await page.locator("main button").count()) === 0, "an operator may change the configuration");
  await page.context().close();
}

async function phones() {
  const page = await visit(PHONE, "dark");
  await page.goto(given.url);
  await logIn(page, "admin", "admin");
  for (const name of PAGES) {
    await open(page, name);
    await inspect(page, `${name} on a phone`);
    if (["now", "statements"].includes(name)) {
      await page.waitForTimeout(2_500);
      await picture(page, `${name}-phone`);
    }
  }
  await page.context().close();
}

/** What each tenant has used is there, and found by name. */
async function tenants(page) {
  await open(page, "tenants");
  const demo = page.locator("tbody tr").filter({ has: page.locator("td:first-child:text-is('demo')") });
  await demo.waitFor();
  const cells = await demo.locator("td").allTextContents();
  ensure(/^[1-9]/.test(cells[3]) && cells[9] === "4" && cells[11] === "10 to 90 %", cells.join(" | "));
  await page.fill("input.search", "nobody's name");
  await page.waitForSelector("p:has-text('No tenant fits.')");
  await page.fill("input.search", "DEM");
  await demo.waitFor();
  ensure((await page.locator("tbody tr").count()) === 1, "others fit too");
  await page.fill("input.search", "");
}

async function keys(page) {
  await open(page, "now");
  await page.keyboard.press("2");
  await page.waitForSelector("h1:has-text('Statements')");
  await page.keyboard.press("/");
  ensure(await page.evaluate("document.activeElement.type === 'search'"), "the search has no focus");
  await page.keyboard.press("Tab");
  await page.evaluate("document.activeElement.blur()");
  await page.keyboard.press("?");
  await page.waitForSelector("dialog[open]");
  await inspect(page, "keys");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
  await page.keyboard.press("9");
  await page.waitForSelector("h1:has-text('Tenants')");
  await page.keyboard.press("0");
  await page.waitForSelector("h1:has-text('Firewall')");
  await page.keyboard.press("1");
  await page.waitForSelector("h1:has-text('Now')");
  // An address that was cut.
  await page.keyboard.press("9");
  await page.waitForSelector("h1:has-text('Tenants')");
  await page.evaluate("location.hash = '#/now/%E0%A4%A'");
  await page.waitForSelector("h1:has-text('Now')");
}

/** A proxy that hangs closes nothing: its silence is told, and that it is over. */
async function hangs(page) {
  await open(page, "now");
  await page.waitForSelector(".dot.live");
  ensure((await order("freeze")) === "done", "it does not hang");
  await page.waitForSelector(".notice.bad:has-text('does not answer')");
  ensure((await page.locator(".dot.lost").count()) === 1, "it is said to be live");
  ensure((await order("thaw")) === "done", "it does not go on");
  await page.waitForSelector(".dot.live");
}

async function restart(page) {
  await open(page, "now/hour");
  const before = await known(page);
  const lost = page.waitForSelector(".notice.bad, input[name=user]");
  ensure((await order("restart")) === "done", "no restart");
  await lost;
  // Whoever had logged in has to again: nothing of it was written down.
  await page.waitForSelector("input[name=user]");
  await logIn(page, "admin", "admin");
  await page.waitForSelector(".dot.live");
  ensure((await known(page)) >= before && before > 0, "the restart has emptied the history");
  await within("rates come again", async () => !(await page.textContent(".stat dd")).startsWith("–"));
}

/** A script of before an upgrade, that a browser kept: its visitor is told, whenever they log in. */
async function outdated(page) {
  await open(page, "now");
  const { bundle } = await page.evaluate("fetch('/console/session').then((told) => told.json())");
  const old = await visit(DESKTOP);
  const path = `${given.url}/console.js`;
  const serve = async (route) => {
    const response = await route.fetch();
    const body = given.page ? readFileSync(join(given.page, "console.js"), "utf8") : await response.text();
    const known = given.page ? readFileSync(join(given.page, "sources.sha256"), "utf8").trim() : bundle;
    ensure(body.includes(known), "the script does not know its hash");
    // The tag is that of another text: with it the browser would keep this one.
    const { etag, ...headers } = response.headers();
    await route.fulfill({ response, headers, body: body.replaceAll(known, "0".repeat(64)) });
  };
  await old.route(path, serve);
  await old.goto(given.url);
  await logIn(old, "admin", "admin");
  await old.waitForSelector(".notice.warn:has-text('another version of this page')");
  await inspect(old, "an old page");
  await old.unroute(path, serve);
  await old.click(".notice button:text-is('Load it')");
  // The page of web/ is not the one that the binary has.
  if (!given.page) {
    await old.waitForSelector(".notice", { state: "detached" });
    await old.waitForSelector(".dot.live");
    await old.waitForSelector(".stat");
    ensure((await old.locator(".notice").count()) === 0, "the new page is called old");
    ensure((await page.locator(".notice").count()) === 0, "a page of this version is called old");
  }
  await old.context().close();
}

try {
  const page = await visit(DESKTOP);
  await step("passwords", () => passwords(page));
  await step("every page, light and dark", async () => {
    await page.waitForTimeout(6_000);
    for (const scheme of ["Dark", "Light"]) {
      for (const name of PAGES) {
        await open(page, name);
        await page.waitForTimeout(name === "statements" ? 5_000 : 1_200);
        await inspect(page, `${name}, ${scheme}`);
        await picture(page, scheme === "Dark" ? name : `${name}-dark`);
      }
      await page.click(`.who button:text-is('${scheme}')`);
    }
  });
  await step("statements", () => statements(page));
  await step("the past", () => past(page));
  await step("sessions", () => sessions(page));
  await step("the way of a statement", () => route(page));
  await step("tenants", () => tenants(page));
  await step("configuration", () => configuration(page));
  await step("switchover", () => switchover(page));
  await step("10,000 digests", () => many(page));
  await step("who may only look", () => looks());
  await step("who may operate", () => operates());
  await step("a phone", () => phones());
  await step("keys", () => keys(page));
  await step("an old page", () => outdated(page));
  await step("a proxy that hangs", () => hangs(page));
  await step("a restart", () => restart(page));
  ensure((await page.evaluate("window.pwned")) === undefined, "a hostile name was run as a script");
  ensure(complaints.length === 0, complaints.join("\n"));
} catch (error) {
  console.log(`FAILED: ${error.stack}\n${complaints.join("\n")}`);
  for (const [at, page] of browser.contexts().flatMap((it) => it.pages()).entries()) {
    await page.screenshot({ path: join(given.pictures, `failed-${at}.png`) }).catch(() => {});
  }
  process.exitCode = 1;
} finally {
  await browser.close();
  process.exit();
}
