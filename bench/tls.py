#!/usr/bin/env python3
"""What TLS costs the proxy: CPU of handshakes beside `openssl s_server`, CPU of statements through
TLS and in clear, memory of idle clients.

    cargo build --release -p trunkline && python3 bench/tls.py target/release/trunkline

Starts a MariaDB, a proxy with one worker and `openssl s_server` in a temporary folder, all on the
loopback network; needs openssl and, for statements, sysbench. CPU is the kernel's
(`/proc/PID/task/*/schedstat`), so other programs of the machine disturb less than they would a
clock; medians of rounds that take turns.
"""

import glob
import hashlib
import os
import shutil
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HANDSHAKES = int(os.environ.get("HANDSHAKES", "1000"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
IDLE = int(os.environ.get("IDLE", "2000"))
SECONDS = int(os.environ.get("SECONDS", "8"))
CAPABILITIES = 0x0008_AA85  # with SSL (0x800), plug-ins, secure connections, 4.1
USER, PASSWORD = "bench", "bench"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cpu_us(pid):
    """CPU of a process since it began, in µs."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
        with open(path) as file:
            total += int(file.read().split()[0])
    return total / 1000


def rss(pid):
    with open(f"/proc/{pid}/smaps_rollup") as file:
        line = next(line for line in file if line.startswith("Rss:"))
    return int(line.split()[1]) * 1024


def read_packet(sock):
    head = b""
    while len(head) < 4:
        head += sock.recv(4 - len(head)) or sys.exit("the connection was closed")
    want, body = head[0] | head[1] << 8 | head[2] << 16, b""
    while len(body) < want:
        body += sock.recv(want - len(body)) or sys.exit("the connection was closed")
    return head[3], body


def packet(sequence, body):
    return struct.pack("<I", len(body))[:3] + bytes([sequence]) + body


def opening():
    return struct.pack("<IIB", CAPABILITIES, 1 << 24, 45) + bytes(23)


def encrypted(port, context, session=None, is_mysql=True):
    """A connection with TLS up, and the greeting."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    greeting = b""
    if is_mysql:
        greeting = read_packet(sock)[1]
        sock.sendall(packet(1, opening()))
    return context.wrap_socket(sock, session=session), greeting


def nonce_of(greeting):
    rest = greeting[greeting.index(b"\0", 1) + 1 :]
    return rest[4:12] + rest[31:43]


def log_in(sock, greeting, sequence):
    one = hashlib.sha1(PASSWORD.encode()).digest()
    two = hashlib.sha1(one).digest()
    mask = hashlib.sha1(nonce_of(greeting) + two).digest()
    answer = bytes(a ^ b for a, b in zip(one, mask))
    body = opening() + USER.encode() + b"\0" + bytes([20]) + answer + b"mysql_native_password\0"
    sock.sendall(packet(sequence, body))
    sequence, reply = read_packet(sock)
    if reply[0] != 0:
        sys.exit(f"the login was refused: {reply}")


def client_context(version):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = context.maximum_version = version
    return context


def ticket(port, context, is_mysql):
    """A session to resume. Tickets of TLS 1.3 come behind the handshake."""
    sock, _ = encrypted(port, context, None, is_mysql)
    sock.settimeout(0.3)
    try:
        sock.recv(1)
    except (TimeoutError, ssl.SSLError, OSError):
        pass
    session = sock.session
    sock.close()
    return session


def handshakes(pid, port, version, is_resumed, is_mysql):
    """CPU of one handshake with its connection, in µs, and how many were resumed."""
    context = client_context(version)
    session, resumed = None, 0
    if is_resumed:
        session = ticket(port, context, is_mysql)
    before = cpu_us(pid)
    for _ in range(HANDSHAKES):
        sock, _ = encrypted(port, context, session, is_mysql)
        resumed += sock.session_reused or 0
        sock.close()
    settle()
    return (cpu_us(pid) - before) / HANDSHAKES, resumed


def bare(pid, port):
    """CPU of a connection that is greeted and closed, in µs."""
    before = cpu_us(pid)
    for _ in range(HANDSHAKES):
        with socket.create_connection(("127.0.0.1", port)) as sock:
            read_packet(sock)
    settle()
    return (cpu_us(pid) - before) / HANDSHAKES


def settle():
    time.sleep(0.2)


def run(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more).stdout


def wait_port(port):
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"nobody listens at {port}")


class Stage:
    """What is measured, in a folder of its own."""

    def __init__(self, binary):
        self.binary, self.started = binary, []
        self.folder = tempfile.mkdtemp(prefix="trunkline-tls-")

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, *words):
        log = open(self.path("log"), "a")
        process = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.started.append(process)
        return process

    def certificate(self, kind):
        cert, key = self.path(f"{kind}.pem"), self.path(f"{kind}-key.pem")
        new = ["rsa:2048"] if kind == "rsa" else ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        run("openssl", "req", "-x509", "-newkey", *new, "-nodes", "-days", "30",
            "-subj", "/CN=localhost", "-keyout", key, "-out", cert)
        os.chmod(key, 0o600)
        return cert, key

    def server(self):
        data, port = self.path("data"), free_port()
        run("mariadb-install-db", "--no-defaults", f"--datadir={data}", "--skip-test-db",
            f"--user={os.environ.get('USER') or 'root'}",
            "--auth-root-authentication-method=normal")
        self.start("mariadbd", "--no-defaults", f"--datadir={data}", f"--port={port}",
                   "--bind-address=127.0.0.1", f"--socket={self.path('sock')}",
                   f"--user={os.environ.get('USER') or 'root'}", "--max-connections=500",
                   f"--pid-file={self.path('pid')}", "--innodb-buffer-pool-size=128M")
        wait_port(port)
        run("mariadb", "--no-defaults", f"--socket={self.path('sock')}", "-uroot", "-e",
            f"CREATE DATABASE sbtest; GRANT ALL ON *.* TO {USER}@'%' IDENTIFIED BY '{PASSWORD}'")
        return port

    def proxy(self, server, cert, key):
        port, name = free_port(), self.path(f"proxy-{len(self.started)}.toml")
        with open(name, "w") as file:
            file.write(f'listen = ["127.0.0.1:{port}"]\nworkers = 1\nhttp_listen = ""\n'
                       f'tls_cert = "{cert}"\ntls_key = "{key}"\n'
                       f'[[server]]\nhostgroup = 0\naddress = "127.0.0.1:{server}"\n'
                       f'[[user]]\nname = "{USER}"\npassword = "{PASSWORD}"\n')
        os.chmod(name, 0o600)
        process = self.start(self.binary, "serve", "-c", name)
        wait_port(port)
        return process.pid, port

    def openssl(self, cert, key):
        port = free_port()
        process = self.start("openssl", "s_server", "-quiet", "-cert", cert, "-key", key,
                             "-accept", f"127.0.0.1:{port}", "-num_tickets", "1")
        wait_port(port)
        return process.pid, port

    def end(self):
        for process in reversed(self.started):
            process.terminate()
        for process in self.started:
            process.wait()
        shutil.rmtree(self.folder)


def show_handshakes(stage, server):
    print(f"\nhandshakes: CPU in µs each, the connection with it; {HANDSHAKES} each, medians of "
          f"{ROUNDS} rounds")
    print("| key | version | kind | trunkline | without connection and greeting | openssl s_server "
          "| trunkline / openssl | resumed / full: trunkline, openssl |")
    print("|---|---|---|---|---|---|---|---|")
    for kind in ("ecdsa", "rsa"):
        cert, key = stage.certificate(kind)
        ours, theirs = stage.proxy(server, cert, key), stage.openssl(cert, key)
        bares = [bare(*ours) for _ in range(ROUNDS)]
        for name, version in (("1.2", ssl.TLSVersion.TLSv1_2), ("1.3", ssl.TLSVersion.TLSv1_3)):
            full = None
            for is_resumed in (False, True):
                mine, other = [], []
                for _ in range(ROUNDS):
                    cpu, resumed = handshakes(*ours, version, is_resumed, True)
                    mine.append(cpu)
                    beside, again = handshakes(*theirs, version, is_resumed, False)
                    other.append(beside)
                    wanted = HANDSHAKES if is_resumed else 0
                    if (resumed, again) != (wanted, wanted):
                        print(f"of {HANDSHAKES}, resumed: {resumed}, openssl {again}")
                mine, other = statistics.median(mine), statistics.median(other)
                alone = mine - statistics.median(bares)
                ratio = "" if full is None else f"{alone / full[0]:.2f}, {other / full[1]:.2f}"
                full = full or (alone, other)
                print(f"| {kind} | {name} | {'resumed' if is_resumed else 'full'} | {mine:.0f} | "
                      f"{alone:.0f} | {other:.0f} | {mine / other:.2f} | {ratio} |", flush=True)


def show_idle(stage, server):
    pid, port = stage.proxy(server, *stage.certificate("ecdsa"))
    context = client_context(ssl.TLSVersion.TLSv1_3)
    kept, before = [], 0
    # The first ones pay for what all share.
    for number in range(100 + IDLE):
        if number == 100:
            settle()
            before = rss(pid)
        sock, greeting = encrypted(port, context)
        log_in(sock, greeting, 2)
        kept.append(sock)
    settle()
    print(f"\nidle clients through TLS 1.3: {(rss(pid) - before) / IDLE / 1024:.1f} KiB each, of "
          f"{IDLE} that are logged in")


def show_statements(stage, server):
    if not shutil.which("sysbench"):
        print("\nno sysbench: statements are not measured")
        return
    common = ["sysbench", "oltp_point_select", "--mysql-host=127.0.0.1", f"--mysql-user={USER}",
              f"--mysql-password={PASSWORD}", "--mysql-db=sbtest", "--table-size=10000",
              "--db-ps-mode=disable"]
    run(*common, f"--mysql-port={server}", "prepare")
    cert, key = stage.certificate("ecdsa")
    # sysbench wants files of these names where it runs.
    for name, file in (("cacert", cert), ("client-cert", cert), ("client-key", key)):
        shutil.copy(file, stage.path(f"{name}.pem"))
    pid, port = stage.proxy(server, cert, key)
    print(f"\nstatements: CPU in µs each, 16 clients, {SECONDS} s each way in turn")
    ratios = []
    for _ in range(ROUNDS):
        costs = []
        for mode in ("off", "on"):
            before = cpu_us(pid)
            said = run(*common, f"--mysql-port={port}", "--threads=16", f"--time={SECONDS}",
                       f"--mysql-ssl={mode}", "run", cwd=stage.folder)
            count = int(next(line for line in said.splitlines() if "total:" in line).split()[1])
            costs.append((cpu_us(pid) - before) / count)
        ratios.append(costs[1] / costs[0])
        print(f"clear {costs[0]:.1f}, TLS {costs[1]:.1f}: {ratios[-1]:.2f} ×", flush=True)
    print(f"median {statistics.median(ratios):.2f} ×")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    stage = Stage(os.path.abspath(sys.argv[1]))
    try:
        server = stage.server()
        show_handshakes(stage, server)
        show_idle(stage, server)
        show_statements(stage, server)
    finally:
        stage.end()


if __name__ == "__main__":
    main()
