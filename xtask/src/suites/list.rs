//! Which test suites there are, where they come from, and how they run.
//!
//! `get` runs once, in the suite's folder of the cache. `run` runs there with `HOST`, `PORT`,
//! `DB_USER`, `DB_PASSWORD` and `SCHEMA` set, and prints what [`super::outcome`] reads.

use super::outcome::Format;

/// One driver's own tests.
pub struct Suite {
    pub name: &'static str,
    pub version: &'static str,
    pub get: &'static str,
    pub run: &'static str,
    pub format: Format,
    /// Tests that do not pass directly here, and why: a part of their name, and the reason.
    pub skipped: &'static [(&'static str, &'static str)],
    /// Tests that differ through Trunkline, and why: a part of their name, and the reason.
    pub differs: &'static [(&'static str, &'static str)],
}

/// Why tests that look for TLS differ before a server without it.
const TLS: &str = "Trunkline offers TLS where the server has none";
/// Why a test that shortens the server's time-out for all sessions differs.
const SERVERS_WAIT_TIMEOUT: &str =
    "the server's `wait_timeout` does not end clients, the proxy's does; see limits.md";
/// Why a test that reads the SQLSTATE of a refusal differs.
const EARLY: &str = "PHP takes no SQLSTATE from a refusal that comes before the password is asked \
                     for in full; see limits.md";
/// Why a test that has so and so much time differs.
const BY_CHANCE: &str = "by chance: it watches the clock";
/// Why a test that makes accounts and logs in as them differs.
const ACCOUNTS: &str = "logs in as an account that it has made; the proxy's users are configured";
/// Why a test that reads the server's counters of its session differs.
const COUNTERS: &str =
    "`SHOW SESSION STATUS` counts what the server connection has done; see limits.md";
/// Why a test that counts the clients which the server has lost differs.
const ABORTED: &str = "a client that vanishes takes no server connection with it; see limits.md";
/// Why a test that asks the server for the TLS version of its connection differs.
const SERVERS_TLS: &str =
    "`SHOW STATUS LIKE 'Ssl_version'` is the server connection's; see limits.md";
/// Why a test that knows the ids of its prepared statements differs.
const STATEMENT_IDS: &str =
    "expects MySQL's ids of statements, which count those that it prepares again by itself";
/// Why a test that counts the server's connections differs.
const CONNECTIONS: &str = "`Threads_connected` counts server connections; see limits.md";
/// Why a test whose client vanishes while its statement sleeps differs.
const VANISHED: &str = "the statement of a client that vanishes runs to its end; see limits.md";
/// Why a test that looks for its own connection in the list differs.
const NUMBERS: &str = "`SHOW PROCESSLIST` has the numbers of server connections; see limits.md";

/// Fetches a source package of the distribution as `SOURCE`, and unpacks what is upstream's.
/// The lists of sources are kept beside it: the machine's own configuration may have none.
macro_rules! debian_source {
    ($package:literal) => {
        concat!(
            "mkdir -p lists/partial source\n",
            "for file in /etc/apt/sources.list.d/*.sources /etc/apt/sources.list; do\n",
            "  [ -f $file ] || continue\n",
            "  case $file in\n",
            "    *.sources) sed 's/^Types: *deb$/Types: deb-src/' $file > own.sources;;\n",
            "    *) sed -n 's/^deb /deb-src /p' $file > own.list;;\n",
            "  esac\n",
            "done\n",
            "list=own.list; [ -f own.sources ] && list=own.sources\n",
            "apt=\"-q -o Dir::Etc::sourcelist=$PWD/$list -o Dir::Etc::sourceparts=- ",
            "-o Dir::State::lists=$PWD/lists\"\n",
            "apt-get $apt update\n",
            "(cd source && apt-get $apt source --download-only --tar-only ",
            $package,
            ")\n",
            "for file in source/*.orig.tar.*; do case $file in *.asc);; ",
            "*) tar xf $file --strip-components=1;; esac; done\n",
        )
    };
}

/// Runs the tests of a Perl driver.
macro_rules! perl_run {
    ($driver:literal) => {
        concat!(
            "export DBI_USER=$DB_USER DBI_PASS=$DB_PASSWORD\n",
            "export DBI_DSN=\"DBI:",
            $driver,
            ":database=$SCHEMA;host=$HOST;port=$PORT\"\n",
            "prove -v t/ 2>&1 || true\n"
        )
    };
}

/// Builds or runs the tests that mysql_async has in its sources, without a second TLS library.
macro_rules! mysql_async_test {
    ($arguments:literal) => {
        concat!(
            "cd driver && RUSTFLAGS=--cap-lints=warn CARGO_TARGET_DIR=../target cargo test --lib ",
            "--no-default-features --features minimal-rust,derive,binlog ",
            $arguments,
            "\n"
        )
    };
}

pub const SUITES: &[Suite] = &[
    Suite {
        name: "go-sql-driver/mysql (Go)",
        version: "1.10.1",
        get: "export GOFLAGS=-mod=mod\n\
              [ -f go.mod ] || go mod init suite\n\
              go get github.com/go-sql-driver/mysql@v1.10.1\n\
              cp -r \"$(go list -m -f '{{.Dir}}' github.com/go-sql-driver/mysql)\" driver\n\
              chmod -R u+w driver\n\
              (cd driver && go test -c -o ../tests)\n",
        // One test connects to a host of the internet.
        run: "export MYSQL_TEST_USER=$DB_USER MYSQL_TEST_PASS=$DB_PASSWORD\n\
              export MYSQL_TEST_ADDR=$HOST:$PORT MYSQL_TEST_DBNAME=$SCHEMA\n\
              export MYSQL_TEST_CONCURRENT=1\n\
              cd driver && ../tests -test.skip TestConnectorReturnsTimeout -test.v 2>&1 || true\n",
        format: Format::Go,
        skipped: &[
            ("TestTLS", "the server has no TLS"),
            ("TestIssue1567", "the server has no TLS"),
        ],
        differs: &[("TestTLS", TLS), ("TestIssue1567", TLS)],
    },
    Suite {
        name: "mysqlclient (Python)",
        version: "2.3.1",
        get: "python3 -m venv venv\n\
              venv/bin/pip download -q --no-deps --no-binary :all: mysqlclient==2.3.1\n\
              tar xf mysqlclient-2.3.1.tar.gz --strip-components=1\n\
              venv/bin/pip install -q ./mysqlclient-2.3.1.tar.gz pytest==9.0.1 \
              SQLAlchemy==2.0.44\n",
        run: "cat > tests/own.cnf <<END\n[MySQLdb-tests]\nhost=$HOST\nport=$PORT\n\
              user=$DB_USER\npassword=$DB_PASSWORD\ndatabase=$SCHEMA\n\
              default-character-set=utf8mb4\nlocal-infile=1\nEND\n\
              TESTDB=own.cnf venv/bin/python -m pytest -q -rA -p no:cacheprovider tests || true\n",
        format: Format::Pytest,
        skipped: &[("test_result_concurrent_use_raises", BY_CHANCE)],
        differs: &[("test_result_concurrent_use_raises", BY_CHANCE)],
    },
    Suite {
        name: "MySQL Connector/Python",
        version: "9.7.0",
        // The sources ask for a tool of pip's older days; the tests run on the package's own
        // build, which has the C extension.
        get: "python3 -m venv venv\n\
              venv/bin/pip install -q wheel==0.48.0 setuptools==75.0.0 \
              mysql-connector-python==9.7.0\n\
              venv/bin/pip download -q --no-deps --no-build-isolation --no-binary :all: \
              mysql-connector-python==9.7.0\n\
              tar xf mysql_connector_python-9.7.0.tar.gz --strip-components=1\n\
              rm -rf lib\nmkdir lib\nln -s \"$PWD\"/venv/lib/python3.*/site-packages/mysql lib/mysql\n",
        // Those about time-outs wait for minutes.
        run: "(timeout 1800 venv/bin/python unittests.py --use-external-server --skip-install \
              -H $HOST -P $PORT --user $DB_USER --password $DB_PASSWORD --verbosity 2 \
              -r '^(?!.*timeout)' || true) 2>&1 | sed -En \
              's/^(\\S+) \\.\\.\\. ok$/PASSED \\1/p\n\
              s/^(\\S+) \\.\\.\\. (FAIL|ERROR)$/FAILED \\1/p\n\
              s/^(\\S+) \\.\\.\\. skipped.*$/SKIPPED \\1/p'\n",
        format: Format::Pytest,
        skipped: &[],
        differs: &[
            ("Bug26484601.test_get_connection_using_given_TLS_version", SERVERS_TLS),
            ("WL14852.test_giving_ssl_disable_does_not_raise_error", SERVERS_TLS),
            ("test_set_compress", COUNTERS),
            ("connection.MySQLConnectionTests.test_shutdown", ABORTED),
            ("cursor.MySQLCursorPreparedTests.test_execute", STATEMENT_IDS),
        ],
    },
    Suite {
        name: "MariaDB Connector/J (Java)",
        version: "2.7.6",
        // The tests are from the source, the driver they test is its author's own build.
        get: concat!(
            debian_source!("mariadb-connector-java"),
            "mkdir -p fetch classes\ncat > fetch/pom.xml <<'END'\n",
            include_str!("../../suites/junit.pom.xml"),
            "END\ncat > JunitRun.java <<'END'\n",
            include_str!("../../suites/JunitRun.java"),
            "END\nmvn -q -B -f fetch/pom.xml ",
            "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies ",
            "-DoutputDirectory=$PWD/lib\n",
            "javac -nowarn -encoding UTF-8 -cp 'lib/*' -d classes JunitRun.java ",
            "$(find src/test/java -name '*.java')\n",
            "cp -r src/test/resources/. classes/\n",
        ),
        run: "export TEST_DB_HOST=$HOST TEST_DB_PORT=$PORT TEST_DB_DATABASE=$SCHEMA\n\
              export TEST_DB_USER=$DB_USER TEST_DB_PASSWORD=$DB_PASSWORD\n\
              export TEST_DB_OTHER=allowPublicKeyRetrieval=true\n\
              timeout 1200 java -cp 'classes:lib/*' JunitRun classes || true\n",
        format: Format::Pytest,
        skipped: &[],
        differs: &[
            ("ConnectionTest.ensureSocketTimeoutState", VANISHED),
            ("DriverTest.parameterMetaDataNotPreparable", COUNTERS),
            ("DriverTest.parameterMetaDataPreparable", COUNTERS),
            ("MariaDbPoolDataSourceTest.ensureClosed", CONNECTIONS),
            ("MultiTest.rewriteBatchedMaxAllowedSizeTest", COUNTERS),
            ("MultiTest.rewriteBatchedStatementsDisabledInsertionTest", COUNTERS),
            ("MultiTest.rewriteBatchedStatementsInsertWithDuplicateRecordsTest", COUNTERS),
            ("MultiTest.rewriteBatchedStatementsSemicolon", COUNTERS),
            ("MultiTest.rewriteBatchedStatementsUpdateTest", COUNTERS),
            ("MultiTest.rewriteErrorRewriteMulti", COUNTERS),
            ("MultiTest.rewriteErrorRewriteValues", COUNTERS),
            ("MultiTest.rewriteErrorStandard", COUNTERS),
            ("MultiTest.semicolonTest", COUNTERS),
            ("MultiTest.testMultipleExecuteBatch", COUNTERS),
        ],
    },
    Suite {
        name: "PyMySQL (Python)",
        // The last whose package has its tests.
        version: "0.9.3",
        get: "python3 -m venv venv\n\
              venv/bin/pip download -q --no-deps --no-binary :all: PyMySQL==0.9.3\n\
              tar xf PyMySQL-0.9.3.tar.gz --strip-components=1\n\
              venv/bin/pip install -q cryptography==50.0.2 pytest==9.0.1\n\
              echo 'from unittest import *' > unittest2.py\n",
        // Its tests want two schemas, and an account that they can say in a file.
        run: "cat > pymysql/tests/databases.json <<END\n\
              [{\"host\": \"$HOST\", \"port\": $PORT, \"user\": \"$DB_USER\",\n\
              \"passwd\": \"$DB_PASSWORD\", \"db\": \"$SCHEMA\",\n\
              \"use_unicode\": true, \"local_infile\": true},\n\
              {\"host\": \"$HOST\", \"port\": $PORT, \"user\": \"$DB_USER\",\n\
              \"passwd\": \"$DB_PASSWORD\", \"db\": \"${SCHEMA}_2\"}]\nEND\n\
              venv/bin/python - <<END\nimport pymysql\n\
              conn = pymysql.connect(host='$HOST', port=$PORT, user='$DB_USER',\n\
              password='$DB_PASSWORD')\n\
              conn.cursor().execute('CREATE DATABASE IF NOT EXISTS ${SCHEMA}_2')\nEND\n\
              venv/bin/python -m pytest -q -rA --tb=no -p no:cacheprovider pymysql/tests || true\n",
        format: Format::Pytest,
        skipped: &[],
        differs: &[("test_issue_36", NUMBERS)],
    },
    Suite {
        name: "SQLAlchemy over PyMySQL (Python)",
        version: "2.0.44",
        get: "python3 -m venv venv\n\
              venv/bin/pip download -q --no-deps --no-binary :all: SQLAlchemy==2.0.44\n\
              tar xf sqlalchemy-2.0.44.tar.gz --strip-components=1\n\
              venv/bin/pip install -q SQLAlchemy==2.0.44 PyMySQL==1.2.4 cryptography==50.0.2 \
              pytest==8.3.5\n",
        run: "venv/bin/python - <<END\nimport pymysql\n\
              conn = pymysql.connect(host='$HOST', port=$PORT, user='$DB_USER',\n\
              password='$DB_PASSWORD')\n\
              for name in ['test_schema', 'test_schema_2']:\n\
              \x20   conn.cursor().execute(f'DROP DATABASE IF EXISTS {name}')\n\
              \x20   conn.cursor().execute(f'CREATE DATABASE {name} CHARACTER SET utf8mb4')\nEND\n\
              uri=mysql+pymysql://$DB_USER:$DB_PASSWORD@$HOST:$PORT/$SCHEMA?charset=utf8mb4\n\
              venv/bin/python -m pytest -q -rA --tb=no -p no:cacheprovider -p no:logging \
              --dburi $uri test/dialect/test_suite.py test/dialect/mysql \
              test/engine/test_execute.py test/engine/test_transaction.py \
              test/engine/test_reconnect.py test/engine/test_reflection.py || true\n",
        format: Format::Pytest,
        skipped: &[],
        differs: &[],
    },
    Suite {
        name: "mysql_async (Rust)",
        version: "0.37.1",
        get: concat!(
            "mkdir -p fetch/src\n[ -f fetch/src/lib.rs ] || touch fetch/src/lib.rs\n",
            "printf '[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n",
            "[dependencies]\nmysql_async = \"=0.37.1\"\n[workspace]\n' > fetch/Cargo.toml\n",
            "cargo fetch -q --manifest-path fetch/Cargo.toml\nrm -rf driver\n",
            "cp -r \"${CARGO_HOME:-$HOME/.cargo}\"/registry/src/*/mysql_async-0.37.1 driver\n",
            "chmod -R u+w driver\nprintf '\n[workspace]\n' >> driver/Cargo.toml\n",
            mysql_async_test!("--no-run"),
        ),
        run: concat!(
            "export DATABASE_URL=mysql://$DB_USER:$DB_PASSWORD@$HOST:$PORT/$SCHEMA",
            "?prefer_socket=false\n(",
            mysql_async_test!("-- --test-threads=1"),
            ") 2>&1 | sed -En 's/^test (\\S+)( - .*)? \\.\\.\\. ok$/PASSED \\1/p",
            ";s/^test (\\S+)( - .*)? \\.\\.\\. FAILED$/FAILED \\1/p",
            ";s/^test (\\S+)( - .*)? \\.\\.\\. ignored.*$/SKIPPED \\1/p'\n",
        ),
        format: Format::Pytest,
        skipped: &[("check_absolute_connection_ttl", BY_CHANCE)],
        differs: &[
            ("zz_should_check_wait_timeout_on_get_conn", SERVERS_WAIT_TIMEOUT),
            ("should_change_user", ACCOUNTS),
            ("should_connect", ACCOUNTS),
            ("should_hold_stmt_cache_size_bound", COUNTERS),
            ("should_not_cache_statements_if_stmt_cache_size_is_zero", COUNTERS),
            ("check_absolute_connection_ttl", BY_CHANCE),
            ("should_reconnect", BY_CHANCE),
        ],
    },
    Suite {
        name: "sqlx (Rust)",
        version: "0.9.0",
        get: concat!(
            "mkdir -p shim/src src\ntouch src/lib.rs\ncat > shim/src/lib.rs <<'END'\n",
            include_str!("../../suites/sqlx_test.rs"),
            "END\ncat > shim/Cargo.toml <<'END'\n",
            include_str!("../../suites/sqlx_test.toml"),
            "END\ncat > Cargo.toml <<'END'\n",
            include_str!("../../suites/sqlx.toml"),
            "END\ncargo fetch -q\nrm -rf tests\n",
            "cp -r \"${CARGO_HOME:-$HOME/.cargo}\"/registry/src/*/sqlx-0.9.0/tests tests\n",
            "chmod -R u+w tests\nCARGO_TARGET_DIR=target cargo test --no-run\n",
        ),
        // What the package's tests find in their schema. Some find their own schemas.
        run: concat!(
            "export DATABASE_URL=mysql://$DB_USER:$DB_PASSWORD@$HOST:$PORT/$SCHEMA\n",
            "sed '/^-- Create a user/,$d' tests/mysql/setup.sql | mariadb --no-defaults ",
            "--skip-ssl --protocol=tcp -h$HOST -P$PORT -u$DB_USER -p$DB_PASSWORD $SCHEMA\n",
            "(CARGO_TARGET_DIR=target cargo test --no-fail-fast -- --test-threads=4",
            ") 2>&1 | sed -En '",
            "s/^test (\\S+)( - .*)? \\.\\.\\. ok$/PASSED \\1/p",
            ";s/^test (\\S+)( - .*)? \\.\\.\\. FAILED$/FAILED \\1/p",
            ";s/^test (\\S+)( - .*)? \\.\\.\\. ignored.*$/SKIPPED \\1/p'\n",
        ),
        format: Format::Pytest,
        skipped: &[],
        differs: &[],
    },
    Suite {
        name: "DBD::MariaDB (Perl)",
        version: "1.22",
        get: concat!(
            debian_source!("libdbd-mariadb-perl"),
            "apt-get install -y -q libdbd-mariadb-perl libtest-deep-perl libnet-ssleay-perl\n",
        ),
        run: perl_run!("MariaDB"),
        format: Format::Tap,
        skipped: &[
            ("92ssl_optional", "expects a server without TLS"),
            ("rt122541-decimals", "expects the type of a literal that MySQL 9 has changed"),
        ],
        differs: &[("92ssl_optional", TLS)],
    },
    Suite {
        name: "DBD::mysql (Perl)",
        version: "4.050",
        get: concat!(
            debian_source!("libdbd-mysql-perl"),
            "apt-get install -y -q libdbd-mysql-perl libtest-deep-perl\n",
        ),
        run: perl_run!("mysql"),
        format: Format::Tap,
        skipped: &[
            ("92ssl_optional", "expects a server without TLS"),
            ("rt85919-fetch-lost-connection", "expects another of the client's error codes"),
            ("manifest.t", "is for the author's own tree"),
            ("version.t", "is for the author's own tree"),
        ],
        differs: &[("92ssl_optional", TLS)],
    },
    Suite {
        name: "mysqli and PDO (PHP)",
        version: "8.2.32",
        get: debian_source!("php8.2=8.2.32-1~deb12u1"),
        run: "export NO_INTERACTION=1 MYSQL_TEST_HOST=$HOST MYSQL_TEST_PORT=$PORT\n\
              export MYSQL_TEST_USER=$DB_USER MYSQL_TEST_PASSWD=$DB_PASSWORD\n\
              export MYSQL_TEST_DB=$SCHEMA PDO_MYSQL_TEST_USER=$DB_USER\n\
              export PDO_MYSQL_TEST_DSN=\"mysql:host=$HOST;port=$PORT;dbname=$SCHEMA\"\n\
              export PDO_MYSQL_TEST_HOST=$HOST PDO_MYSQL_TEST_PORT=$PORT\n\
              export PDO_MYSQL_TEST_PASS=$DB_PASSWORD PDO_MYSQL_TEST_DB=$SCHEMA\n\
              php run-tests.php -p \"$(command -v php)\" -q --no-color -g FAIL,PASS,SKIP \
              --set-timeout 30 ext/mysqli/tests ext/pdo_mysql/tests || true\n",
        format: Format::Phpt,
        skipped: &[],
        differs: &[
            ("mysqli_no_reconnect", NUMBERS),
            ("mysqli_pconn_kill", NUMBERS),
            ("gh8978", TLS),
            ("gh11438", ACCOUNTS),
            ("mysqli_report_new", EARLY),
        ],
    },
];
