<?php
// An ordinary application: requests of a blog, with the statements that WordPress makes for a page,
// a comment and its cron, and a connection for each request.

declare(strict_types=1);

const REQUESTS_PER_COMMENT = 5;

function open_blog(): mysqli
{
    mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
    $db = new mysqli(
        getenv('DRIVER_HOST'),
        getenv('DRIVER_USER'),
        getenv('DRIVER_PASSWORD'),
        null,
        (int) getenv('DRIVER_PORT'),
    );
    $db->set_charset('utf8mb4');
    $db->query("SET NAMES 'utf8mb4' COLLATE 'utf8mb4_unicode_520_ci'");
    $db->query('SELECT @@SESSION.sql_mode');
    $db->query("SET SESSION sql_mode='NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO'");
    $db->select_db(getenv('DRIVER_SCHEMA'));
    return $db;
}

function install(mysqli $db): void
{
    $db->query('CREATE TABLE wp_options (option_id BIGINT AUTO_INCREMENT PRIMARY KEY,
        option_name VARCHAR(191) UNIQUE, option_value LONGTEXT, autoload VARCHAR(20))');
    $db->query('CREATE TABLE wp_posts (ID BIGINT AUTO_INCREMENT PRIMARY KEY, post_title TEXT,
        post_status VARCHAR(20), post_type VARCHAR(20), post_date DATETIME,
        comment_count BIGINT DEFAULT 0, KEY k (post_type, post_status, post_date))');
    $db->query('CREATE TABLE wp_postmeta (meta_id BIGINT AUTO_INCREMENT PRIMARY KEY,
        post_id BIGINT, meta_key VARCHAR(255), meta_value LONGTEXT, KEY (post_id))');
    $db->query('CREATE TABLE wp_comments (comment_ID BIGINT AUTO_INCREMENT PRIMARY KEY,
        comment_post_ID BIGINT, comment_content TEXT, comment_approved VARCHAR(20))');
    for ($number = 0; $number < 30; $number++) {
        $db->query("INSERT INTO wp_options (option_name, option_value, autoload)
            VALUES ('option_$number', 'value', 'yes')");
        $db->query("INSERT INTO wp_posts (post_title, post_status, post_type, post_date)
            VALUES ('Post $number', 'publish', 'post', '2026-11-22 10:00:00')");
        $db->query("INSERT INTO wp_postmeta (post_id, meta_key, meta_value)
            VALUES ($db->insert_id, '_edit_lock', '1')");
    }
}

function page(mysqli $db, int $post): void
{
    $db->query("SELECT option_name, option_value FROM wp_options WHERE autoload IN ('yes', 'on')");
    $db->query("SELECT option_value FROM wp_options WHERE option_name = 'cron' LIMIT 1");
    $db->query("SELECT SQL_CALC_FOUND_ROWS wp_posts.ID FROM wp_posts WHERE 1=1
        AND wp_posts.post_type = 'post' AND wp_posts.post_status = 'publish'
        ORDER BY wp_posts.post_date DESC LIMIT 0, 10");
    $db->query('SELECT FOUND_ROWS()');
    $db->query("SELECT wp_posts.* FROM wp_posts WHERE ID IN (1,2,3,4,5,6,7,8,9,$post)");
    $db->query("SELECT post_id, meta_key, meta_value FROM wp_postmeta
        WHERE post_id IN (1,2,3,4,5,$post) ORDER BY meta_id ASC");
    $db->query("SELECT COUNT(*) FROM wp_comments WHERE comment_approved = '1'
        AND comment_post_ID = $post");
}

function comment(mysqli $db, int $post): void
{
    $text = $db->real_escape_string("It's comment no. $post");
    $db->query("INSERT INTO wp_comments (comment_post_ID, comment_content, comment_approved)
        VALUES ($post, '$text', '1')");
    $db->query("UPDATE wp_posts SET comment_count = comment_count + 1 WHERE ID = $post");
    $db->query("INSERT INTO wp_options (option_name, option_value, autoload)
        VALUES ('_transient_doing_cron', '1', 'yes') ON DUPLICATE KEY UPDATE
        option_name = VALUES(option_name), option_value = VALUES(option_value)");
    $db->query("DELETE FROM wp_options WHERE option_name = '_transient_doing_cron'");
}

function serve_blog(int $requests): void
{
    $db = open_blog();
    install($db);
    $db->close();
    for ($request = 0; $request < $requests; $request++) {
        $db = open_blog();
        page($db, $request % 30 + 1);
        if ($request % REQUESTS_PER_COMMENT === 0) {
            comment($db, $request % 30 + 1);
        }
        $db->close();
    }
    echo json_encode(['step' => 'served', 'result' => $requests]), "\n";
}
