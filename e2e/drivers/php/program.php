<?php
// Carries out the scenario with one of PHP's drivers and prints a JSON line for each step:
// DRIVER SCENARIO. PHP has no threads, so the steps of the pool's tasks alternate on one thread.

declare(strict_types=1);

require __DIR__ . '/values.php';
require __DIR__ . '/ordinary.php';
require __DIR__ . '/sessions.php';

final class Program
{
    private array $sessions = [];
    private array $stmts = [];

    public function __construct(private string $driver)
    {
    }

    public function attempt(array $step, ?Session $session = null, int $task = 0): mixed
    {
        try {
            return $this->step($step, $session, $task);
        } catch (Throwable $error) {
            return show_error($error);
        }
    }

    private function step(array $step, ?Session $session, int $task): mixed
    {
        $sql = filled($step['sql'] ?? '', getenv('DRIVER_SCHEMA'), $task);
        $params = isset($step['params']) ? parameters($step['params'], $task) : null;
        switch ($step['op']) {
            case 'open':
                $this->sessions[$step['conn']] = open_session($this->driver);
                return 'open';
            case 'close':
                $this->sessions[$step['conn']]->close();
                unset($this->sessions[$step['conn']]);
                return 'closed';
            case 'pool':
                return $this->pool($step);
            case 'execute':
                return $this->stmts[$step['stmt']]->execute($params);
            case 'close_stmt':
                $this->stmts[$step['stmt']]->close();
                unset($this->stmts[$step['stmt']]);
                return 'closed';
        }
        $session ??= $this->sessions[$step['conn']];
        switch ($step['op']) {
            case 'query':
            case 'exec':
                $result = $session->run($sql, $params);
                return isset($step['hide_id']) ? ['id' => 'hidden'] + $result : $result;
            case 'prepare':
                $this->stmts[$step['stmt']] = $session->prepare($sql);
                return 'prepared';
            case 'batch':
                return $session->batch($sql, batch_rows($step));
            case 'stream':
                return $session->stream($sql, $step['take'] ?? PHP_INT_MAX);
            case 'multi':
                return $session->multi($sql);
            case 'autocommit':
                return $session->autocommit($step['on']);
            case 'isolation':
                return $session->run("SET SESSION TRANSACTION ISOLATION LEVEL {$step['level']}");
            case 'schema':
                return $session->schema($step['to']);
            case 'warnings':
                $session->run($sql);
                return $session->run('SHOW WARNINGS');
        }
        $method = str_replace('_', '', $step['op']);
        return method_exists($session, $method) ? $session->$method() : 'unsupported';
    }

    /** Each step of all tasks before the next one; a task has its connection until its end. */
    private function pool(array $step): array
    {
        $results = [];
        for ($first = 1; $first <= $step['tasks']; $first += $step['size']) {
            $tasks = range($first, min($first + $step['size'] - 1, $step['tasks']));
            $sessions = [];
            foreach ($tasks as $task) {
                $sessions[$task] = open_session($this->driver);
            }
            foreach ($step['steps'] as $inner) {
                foreach ($sessions as $task => $session) {
                    $results[$task][] = [$inner['name'], $this->attempt($inner, $session, $task)];
                }
            }
            array_map(fn (Session $session) => $session->close(), $sessions);
        }
        return array_values($results);
    }
}

function batch_rows(array $step): array
{
    if (isset($step['count'])) {
        return array_map(fn (int $number) => ["row $number", $number], range(0, $step['count'] - 1));
    }
    return array_map(fn (array $row) => parameters($row, 0), $step['rows']);
}

[, $driver, $scenario] = $argv;
if ($driver === 'ordinary-wordpress') {
    serve_blog((int) $scenario);
    exit;
}
$program = new Program($driver);
$steps = json_decode(file_get_contents($scenario), true, flags: JSON_THROW_ON_ERROR);
foreach ($steps as $step) {
    $line = ['step' => $step['name'], 'result' => $program->attempt($step)];
    echo json_encode($line, JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE), "\n";
}
