<?php
// Parameters out of the scenario, and values as text that shows their type.

declare(strict_types=1);

const LONG = 200;

function filled(string $text, string $schema, int $task): string
{
    $text = str_replace('{schema}', $schema, $text);
    return $task === 0 ? $text : strtr($text, ['{nn}' => sprintf('%02d', $task), '{n}' => "$task"]);
}

function parameters(array $given, int $task): array
{
    return array_map(fn (mixed $value) => parameter($value, $task), $given);
}

function parameter(mixed $value, int $task): mixed
{
    if (is_string($value)) {
        return filled($value, '', $task);
    }
    if (!is_array($value)) {
        return $value;
    }
    $content = reset($value);
    return match (key($value)) {
        'long' => (int) $content,
        'bytes' => hex2bin($content),
        'repeat' => str_repeat($content[0], $content[1]),
        'repeat_bytes' => hex2bin(str_repeat($content[0], $content[1])),
        'task' => $task,
        // Decimals, dates and times have no type of their own.
        default => $content,
    };
}

function show(mixed $value): string
{
    $text = is_string($value) ? $value : json_encode($value);
    $text = strlen($text) > LONG ? summary($text) : (preg_match('//u', $text) ? $text : bin2hex($text));
    return get_debug_type($value) . ':' . $text;
}

function summary(string $data): string
{
    return strlen($data) . ' bytes, crc ' . dechex(crc32($data));
}

function show_error(Throwable $error): array
{
    $state = $error instanceof mysqli_sql_exception ? $error->getSqlState() : null;
    return [
        'error' => $error::class, 'code' => $error->getCode(), 'state' => $state,
        'message' => $error->getMessage(),
    ];
}
