// The page: who is there, where they are, and what they look at.

import "uplot/dist/uPlot.min.css";
import "./console.css";
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { api, onLoggedOut, type Session } from "./api";
import { look, stopLooking, useLive } from "./live";
import { Login } from "./login";
import { CachePage } from "./pages/cache";
import { ConfigurationPage } from "./pages/configuration";
import { EventsPage } from "./pages/events";
import { FirewallPage } from "./pages/firewall";
import { NowPage } from "./pages/now";
import { RulesPage } from "./pages/rules";
import { ServersPage } from "./pages/servers";
import { SessionsPage } from "./pages/sessions";
import { StatementsPage } from "./pages/statements";
import { TenantsPage } from "./pages/tenants";
import { seconds } from "./text";
import { Dialog } from "./ui";

export type PageProps = {
  session: Session;
  theme: string;
  /** What is behind the page's name in the address. */
  path: string[];
  /** Says something that was done. */
  say: (text: string) => void;
  /** Looks at another topic beside *now*. */
  lookAt: (topics: string) => void;
};

type Page = {
  name: string;
  title: string;
  topics: string;
  draw: (props: PageProps) => preact.JSX.Element;
};

const PAGES: Page[] = [
  { name: "now", title: "Now", topics: "", draw: NowPage },
  { name: "statements", title: "Statements", topics: "statements=sum_time", draw: StatementsPage },
  { name: "sessions", title: "Sessions", topics: "sessions", draw: SessionsPage },
  { name: "servers", title: "Servers", topics: "", draw: ServersPage },
  { name: "rules", title: "Rules", topics: "", draw: RulesPage },
  { name: "configuration", title: "Configuration", topics: "", draw: ConfigurationPage },
  { name: "events", title: "Events and audit", topics: "", draw: EventsPage },
  { name: "cache", title: "Cache", topics: "", draw: CachePage },
  { name: "tenants", title: "Tenants", topics: "", draw: TenantsPage },
  { name: "firewall", title: "Firewall", topics: "", draw: FirewallPage },
];

/** The key that opens a page: `1` to `9`, and `0` for the tenth. */
function key(at: number): string {
  return String((at + 1) % 10);
}

function place(): string[] {
  try {
    return location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    // An address that was cut, or written by hand.
    return [];
  }
}

function useTheme(): [string, () => void] {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const [theme, setTheme] = useState(
    () => localStorage.getItem("theme") ?? (system.matches ? "dark" : "light"),
  );
  document.documentElement.dataset.theme = theme;
  const change = () => {
    const next = theme === "dark" ? "light" : "dark";
    localStorage.setItem("theme", next);
    setTheme(next);
  };
  return [theme, change];
}

function App() {
  const [session, setSession] = useState<Session | null>();
  const [theme, changeTheme] = useTheme();
  useEffect(() => {
    const ended = () => {
      stopLooking();
      setSession(null);
    };
    onLoggedOut(ended);
    api.session().then(setSession, ended);
  }, []);
  if (session === undefined) return <p class="empty">Loading …</p>;
  if (session === null) return <Login enter={setSession} />;
  return <Console session={session} theme={theme} changeTheme={changeTheme} />;
}

function Console(props: { session: Session; theme: string; changeTheme: () => void }) {
  const { session, theme } = props;
  const [path, setPath] = useState(place);
  const [said, setSaid] = useState("");
  const [hasHelp, setHasHelp] = useState(false);
  const main = useRef<HTMLElement>(null);
  const page = PAGES.find((page) => page.name === path[0]) ?? (PAGES[0] as Page);

  useEffect(() => {
    const moved = () => setPath(place());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  // A visit may have ended meanwhile; asking finds out.
  const ended = () => void api.session().catch(() => {});
  const lookAt = (topics: string) => look(topics, ended);
  useEffect(() => {
    document.title = `${page.title} – Trunkline`;
    lookAt(page.topics);
    setSaid("");
    main.current?.scrollTo(0, 0);
    // On a phone the row of pages is longer than the screen.
    document.querySelector("nav [aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  }, [page.name]);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || document.querySelector("dialog[open]")) return;
      const wanted = PAGES.find((_, at) => key(at) === event.key);
      if (wanted) location.hash = `#/${wanted.name}`;
      else if (event.key === "?") setHasHelp(true);
      else if (event.key === "/") {
        const search = document.querySelector<HTMLInputElement>("input.search");
        if (search) {
          event.preventDefault();
          search.focus();
        }
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  const logOut = () =>
    void api.logOut().finally(() => {
      stopLooking();
      location.reload();
    });
  const Draw = page.draw;
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        Skip to the page
      </a>
      <header>
        <div class="brand">
          <img src="/icon.svg" alt="" width="26" height="26" />
          <span>Trunkline</span>
        </div>
        <nav aria-label="Pages">
          <ul>
            {PAGES.map((each) => (
              <li key={each.name}>
                <a href={`#/${each.name}`} aria-current={each === page ? "page" : undefined}>
                  {each.title}
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <div class="who">
          <p>
            <strong>{session.user}</strong>
            <span>may {session.role}</span>
          </p>
          <div class="who-buttons">
            <button type="button" class="small" onClick={props.changeTheme}>
              {theme === "dark" ? "Light" : "Dark"}
            </button>
            <button type="button" class="small" onClick={() => setHasHelp(true)}>
              Keys
            </button>
            <button type="button" class="small" onClick={logOut}>
              Log out
            </button>
          </div>
        </div>
      </header>
      <main id="main" ref={main} tabIndex={-1}>
        <Notices />
        <div class="title">
          <h1>{page.title}</h1>
          <Pulse />
        </div>
        <Draw
          session={session}
          theme={theme}
          path={path.slice(1)}
          say={(text) => setSaid(text)}
          lookAt={lookAt}
        />
        <div class="said" role="status">
          {said && (
            <p>
              {said}
              <button type="button" class="small" onClick={() => setSaid("")}>
                Dismiss
              </button>
            </p>
          )}
        </div>
      </main>
      {hasHelp && (
        <Dialog title="Keys" close={() => setHasHelp(false)}>
          <dl class="keys">
            {PAGES.map((each, at) => (
              <div key={each.name}>
                <dt>
                  <kbd>{key(at)}</kbd>
                </dt>
                <dd>{each.title}</dd>
              </div>
            ))}
            <div>
              <dt>
                <kbd>/</kbd>
              </dt>
              <dd>search in the page</dd>
            </div>
            <div>
              <dt>
                <kbd>?</kbd>
              </dt>
              <dd>this</dd>
            </div>
          </dl>
        </Dialog>
      )}
    </div>
  );
}

/** Whether what is shown is of this moment, and what runs. */
function Pulse() {
  const { now, state } = useLive();
  return (
    <p class="pulse">
      <span class={`dot ${state}`} aria-hidden="true" />
      {state === "live" ? "live" : state === "lost" ? "no connection" : "connecting"}
      {now && (
        <span class="quiet">
          {" "}
          · {now.version} · up {seconds(now.up)} · configuration {now.configuration.version}
        </span>
      )}
    </p>
  );
}

/** What has to be known whatever page is open. */
function Notices() {
  const { now, state, isOutdated } = useLive();
  return (
    <div role="status">
      {state === "lost" && (
        <p class="notice bad">The proxy does not answer. What is shown is old; trying again …</p>
      )}
      {isOutdated && (
        <p class="notice warn">
          The proxy has another version of this page: what is shown here may be wrong.{" "}
          <button type="button" class="small" onClick={() => location.reload()}>
            Load it
          </button>
        </p>
      )}
      {now?.is_paused && <p class="notice warn">New clients are refused: PROXYSQL RESUME lets them in.</p>}
      {now?.configuration.last_error && (
        <p class="notice bad">The last change of the configuration failed: {now.configuration.last_error}</p>
      )}
    </div>
  );
}

const root = document.getElementById("app");
if (root) {
  root.textContent = "";
  render(<App />, root);
}
