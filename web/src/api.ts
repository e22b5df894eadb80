// What the page asks of the proxy.

export type Session = {
  user: string;
  role: "look" | "operate" | "configure";
  csrf: string;
  version: string;
  bundle: string;
  is_file: boolean;
};

/** A value of a table. */
export type Cell = string | number | null;
export type Row = Record<string, Cell>;
/** `version` is that of the configuration that ran when it was asked. */
export type Rows = { columns: string[]; rows: Row[]; version: number };
export type Done = { affected: number; info: string; warnings: string[] };

/** p50, p95 and p99 in µs. */
export type Latency = [number, number, number];

export type Server = {
  hostgroup: number;
  address: string;
  state: string;
  max: number;
  connections: Record<"connecting" | "idle" | "leased" | "shared" | "resetting", number>;
  statements: number;
  rate: number | null;
  latency: Latency | null;
  counters: Record<string, number>;
};

export type Now = {
  t: number;
  up: number;
  version: string;
  pid: number;
  listen: string[];
  configuration: {
    source: string;
    version: number;
    applied_unix_sec: number;
    users: number;
    rules: number;
    clients_max: number;
    last_error: string | null;
  };
  is_paused: boolean;
  clients: number;
  half_open: number;
  encrypted: number;
  pinned: number;
  pins: Record<string, number>;
  waiting: Record<string, number>;
  held: Record<string, number>;
  rate: number | null;
  errors: number | null;
  refused: number | null;
  accepted: number | null;
  received: number | null;
  sent: number | null;
  latency: Latency | null;
  queue: Latency | null;
  buckets: [number, number, number][];
  memory: { max: number; total: number; resident: number };
  cache: { entries: number; bytes: number; max: number; lookups: number | null; hits: number | null };
  servers: Server[];
  workers: { worker: number; clients: number; rate: number | null }[];
};

/** Time (ms), rate, errors, p50, p95, p99, clients, waiting, pinned. */
export type Point = (number | null)[];

export type Member = {
  address: string;
  role: string;
  reach: string;
  writable: boolean | null;
  source: string | null;
  lag_sec: number | null;
  /** Transactions that it lacks, and for how long (µs), where the binary log is followed. */
  missing: number | null;
  behind_us: number | null;
  version: string;
  gtid: string;
  warnings: string[];
};
export type Cluster = {
  name: string;
  kind: string;
  writer_hostgroup: number;
  reader_hostgroup: number;
  epoch: number;
  servers: Member[];
};
export type ClusterEvent = {
  id: number;
  at: number;
  cluster: string;
  event: string;
  server: string;
  evidence: string;
};
export type Topology = { clusters: Cluster[]; events: ClusterEvent[] };

export type Held = {
  hostgroup: number;
  server: string;
  reasons: string[];
  held_us: number;
  digest_text: string;
};
export type Client = {
  id: number;
  worker: number;
  user: string;
  client: string;
  tls: string;
  schema: string;
  doing: string;
  doing_us: number;
  digest_text: string;
  holds: Held[];
};
export type Clients = { t: number; total: number; pinned: number; rows: Client[] };

export type Digest = {
  digest: string;
  hostgroup: number;
  user: string;
  schema: string;
  text: string;
  count: number;
  time: number;
  min: number;
  max: number;
  p50: number;
  p95: number;
  p99: number;
  sent: number;
  affected: number;
  errors: number;
  first: number;
  last: number;
};
export type Digests = {
  t: number;
  order: string;
  rows: Digest[];
  in_tables: number;
  evicted: number;
  all_time: number;
  all_count: number;
  found?: number;
};

/** Statements and errors a second, p50, p95 and p99 (µs). */
export type Five = (number | null)[];
/**
 * Lines of the past. Points are: end (ms), rate, errors, p50, p95, p99, clients, waiting, refused;
 * null where nothing is known. Lines of digests have a point for each of them.
 */
export type History = {
  from: number;
  to: number;
  step: number;
  known: number;
  points: (number | null)[][];
  digests: Record<string, Five[]>;
};

/** An answer that is none. */
export class Failed extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

let token = "";
let whenLoggedOut = () => {};

/** What happens when the proxy wants a login. */
export function onLoggedOut(then: () => void) {
  whenLoggedOut = then;
}

async function ask<T>(path: string, body?: unknown): Promise<T> {
  const init: RequestInit = { cache: "no-store", credentials: "same-origin" };
  if (body !== undefined) {
    init.method = "POST";
    init.headers = { "Content-Type": "application/json", "X-CSRF-Token": token };
    init.body = JSON.stringify(body);
  }
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new Failed(0, "the proxy does not answer");
  }
  const text = await response.text();
  let told: unknown;
  try {
    told = JSON.parse(text);
  } catch {
    throw new Failed(response.status, `the proxy answered with status ${response.status}`);
  }
  if (!response.ok) {
    const error = (told as { error?: { message?: string } }).error;
    if (response.status === 401 && path !== "/console/login") whenLoggedOut();
    const message = (error?.message ?? `status ${response.status}`).replace(/^ProxySQL Admin Error: /, "");
    throw new Failed(response.status, message);
  }
  return told as T;
}

function keep(session: Session): Session {
  token = session.csrf;
  return session;
}

export const api = {
  session: async () => keep(await ask<Session>("/console/session")),
  logIn: async (user: string, password: string) =>
    keep(await ask<Session>("/console/login", { user, password })),
  logOut: () => ask<object>("/console/logout", {}),
  rows: (sql: string, params: Cell[] = []) =>
    ask<Rows>("/console/statement", { sql, params }),
  /** With a version, only while that configuration is the one that runs. */
  run: (sql: string, expectVersion?: number) =>
    ask<Done>("/console/statement", { sql, expect_version: expectVersion }),
  digests: (order: string, search: string) =>
    ask<Digests>(`/console/digests?order=${order}&search=${encodeURIComponent(search)}`),
  history: (last: number, points: number, digests: string[] = []) =>
    ask<History>(`/console/history?last=${last}&points=${points}&digests=${digests.join(",")}`),
  audit: () => ask<{ lines: Record<string, unknown>[] }>("/console/audit"),
};

/** `'text'` for a statement of the admin port. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
