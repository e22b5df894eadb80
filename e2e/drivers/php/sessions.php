<?php
// The drivers, each behind the same few methods, in its own idiom.

declare(strict_types=1);

abstract class Session
{
    abstract public function run(string $sql, ?array $params = null): mixed;
    abstract public function close(): void;
    abstract public function prepare(string $sql): Prepared;

    public function batch(string $sql, array $rows): mixed
    {
        $prepared = $this->prepare($sql);
        $affected = 0;
        foreach ($rows as $row) {
            $affected += $prepared->execute($row)['affected'];
        }
        $prepared->close();
        return $affected;
    }
}

interface Prepared
{
    public function execute(array $params): mixed;
    public function close(): void;
}

function open_session(string $driver): Session
{
    return match ($driver) {
        'mysqli' => new MysqliSession(),
        'pdo' => new PdoSession(true),
        'pdo-prepared' => new PdoSession(false),
    };
}

final class MysqliSession extends Session
{
    private mysqli $raw;

    public function __construct()
    {
        mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
        $this->raw = mysqli_init();
        $tls = MYSQLI_CLIENT_SSL | MYSQLI_CLIENT_SSL_DONT_VERIFY_SERVER_CERT;
        $flags = getenv('DRIVER_TLS') === 'on' ? $tls : 0;
        $this->raw->real_connect(
            getenv('DRIVER_HOST'), getenv('DRIVER_USER'), getenv('DRIVER_PASSWORD'),
            getenv('DRIVER_SCHEMA'), (int) getenv('DRIVER_PORT'), null, $flags,
        );
        $this->raw->set_charset('utf8mb4');
    }

    public function run(string $sql, ?array $params = null): mixed
    {
        if ($params === null) {
            return $this->outcome($this->raw->query($sql));
        }
        $prepared = $this->prepare($sql);
        $result = $prepared->execute($params);
        $prepared->close();
        return $result;
    }

    private function outcome(mysqli_result|bool $result): array
    {
        if (is_bool($result)) {
            return [
                'affected' => $this->raw->affected_rows, 'id' => $this->raw->insert_id,
                'info' => $this->raw->info, 'warnings' => $this->raw->warning_count,
            ];
        }
        return table($result);
    }

    public function stream(string $sql, int $take): array
    {
        $result = $this->raw->query($sql, MYSQLI_USE_RESULT);
        $seen = [];
        while (count($seen) < $take && ($row = $result->fetch_row())) {
            $seen[] = implode(',', array_map('show', $row));
        }
        $result->free();
        return [count($seen), summary(implode("\n", $seen))];
    }

    public function multi(string $sql): array
    {
        $results = [];
        try {
            $this->raw->multi_query($sql);
            do {
                $results[] = $this->outcome($this->raw->store_result() ?: true);
            } while ($this->raw->more_results() && $this->raw->next_result());
        } catch (mysqli_sql_exception $error) {
            $results[] = show_error($error);
        }
        return $results;
    }

    public function prepare(string $sql): Prepared
    {
        return new MysqliPrepared($this->raw->prepare($sql));
    }

    public function autocommit(bool $on): bool
    {
        return $this->raw->autocommit($on);
    }

    public function schema(string $name): bool
    {
        return $this->raw->select_db($name);
    }

    public function begin(): bool
    {
        return $this->raw->begin_transaction();
    }

    public function commit(): bool
    {
        return $this->raw->commit();
    }

    public function rollback(): bool
    {
        return $this->raw->rollback();
    }

    public function changeuser(): bool
    {
        return $this->raw->change_user(
            getenv('DRIVER_USER'), getenv('DRIVER_PASSWORD'), getenv('DRIVER_SCHEMA'),
        );
    }

    public function connectionid(): array
    {
        $id = $this->raw->query('SELECT CONNECTION_ID()')->fetch_row()[0];
        return ['as the server says' => (int) $id === $this->raw->thread_id];
    }

    public function close(): void
    {
        $this->raw->close();
    }
}

function table(mysqli_result $result): array
{
    $columns = array_map(
        fn (object $field) => [$field->name, $field->table, $field->type, $field->flags],
        $result->fetch_fields(),
    );
    $rows = array_map(fn (array $row) => array_map('show', $row), $result->fetch_all());
    $result->free();
    return ['columns' => $columns, 'rows' => $rows];
}

final class MysqliPrepared implements Prepared
{
    public function __construct(private mysqli_stmt $stmt)
    {
    }

    public function execute(array $params): mixed
    {
        $types = implode('', array_map(
            fn (mixed $value) => is_int($value) || is_bool($value) ? 'i' : (is_float($value) ? 'd' : 's'),
            $params,
        ));
        if ($params !== []) {
            $this->stmt->bind_param($types, ...$params);
        }
        $this->stmt->execute();
        $result = $this->stmt->get_result();
        if ($result === false) {
            return ['affected' => $this->stmt->affected_rows, 'id' => $this->stmt->insert_id];
        }
        return table($result);
    }

    public function close(): void
    {
        $this->stmt->close();
    }
}

final class PdoSession extends Session
{
    private ?PDO $raw;

    public function __construct(bool $emulated)
    {
        $dsn = sprintf(
            'mysql:host=%s;port=%s;dbname=%s;charset=utf8mb4',
            getenv('DRIVER_HOST'), getenv('DRIVER_PORT'), getenv('DRIVER_SCHEMA'),
        );
        $options = [
            PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
            PDO::ATTR_EMULATE_PREPARES => $emulated,
            PDO::ATTR_DEFAULT_FETCH_MODE => PDO::FETCH_NUM,
        ];
        if (getenv('DRIVER_TLS') === 'on') {
            $options[PDO::MYSQL_ATTR_SSL_CA] = '';
            $options[PDO::MYSQL_ATTR_SSL_VERIFY_SERVER_CERT] = false;
        }
        $this->raw = new PDO($dsn, getenv('DRIVER_USER'), getenv('DRIVER_PASSWORD'), $options);
    }

    public function run(string $sql, ?array $params = null): mixed
    {
        if ($params === null) {
            return $this->outcome($this->raw->query($sql));
        }
        $prepared = $this->prepare($sql);
        $result = $prepared->execute($params);
        $prepared->close();
        return $result;
    }

    public function outcome(PDOStatement $stmt): array
    {
        if ($stmt->columnCount() === 0) {
            return ['affected' => $stmt->rowCount(), 'id' => $this->raw->lastInsertId()];
        }
        $columns = [];
        for ($place = 0; $place < $stmt->columnCount(); $place++) {
            $meta = $stmt->getColumnMeta($place) ?: [];
            unset($meta['pdo_type'], $meta['precision']);
            $columns[] = $meta;
        }
        $rows = array_map(fn (array $row) => array_map('show', $row), $stmt->fetchAll());
        return ['columns' => $columns, 'rows' => $rows];
    }

    public function stream(string $sql, int $take): array
    {
        $this->raw->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, false);
        $stmt = $this->raw->query($sql);
        $seen = [];
        while (count($seen) < $take && ($row = $stmt->fetch())) {
            $seen[] = implode(',', array_map('show', $row));
        }
        $stmt->closeCursor();
        $this->raw->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, true);
        return [count($seen), summary(implode("\n", $seen))];
    }

    public function multi(string $sql): array
    {
        $results = [];
        try {
            $stmt = $this->raw->query($sql);
            do {
                $results[] = $this->outcome($stmt);
            } while ($stmt->nextRowset());
        } catch (PDOException $error) {
            $results[] = show_error($error);
        }
        return $results;
    }

    public function prepare(string $sql): Prepared
    {
        return new PdoPrepared($this, $this->raw->prepare($sql));
    }

    public function autocommit(bool $on): bool
    {
        return $this->raw->setAttribute(PDO::ATTR_AUTOCOMMIT, $on);
    }

    public function schema(string $name): mixed
    {
        return $this->run("USE `$name`");
    }

    public function begin(): bool
    {
        return $this->raw->beginTransaction();
    }

    public function commit(): bool
    {
        return $this->raw->commit();
    }

    public function rollback(): bool
    {
        return $this->raw->inTransaction() ? $this->raw->rollBack() : (bool) $this->run('ROLLBACK');
    }

    public function ping(): mixed
    {
        return $this->raw->getAttribute(PDO::ATTR_SERVER_VERSION);
    }

    public function close(): void
    {
        $this->raw = null;
    }
}

final class PdoPrepared implements Prepared
{
    public function __construct(private PdoSession $session, private ?PDOStatement $stmt)
    {
    }

    public function execute(array $params): mixed
    {
        foreach ($params as $place => $value) {
            $type = is_int($value) ? PDO::PARAM_INT : ($value === null ? PDO::PARAM_NULL : PDO::PARAM_STR);
            $this->stmt->bindValue($place + 1, $value, $type);
        }
        $this->stmt->execute();
        return $this->session->outcome($this->stmt);
    }

    public function close(): void
    {
        $this->stmt = null;
    }
}
