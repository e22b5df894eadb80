-- What is dumped and loaded again: every type, keys, views, routines, triggers, odd names.
CREATE TABLE kinds (
    id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    t TINYINT DEFAULT 5, b BIGINT UNSIGNED, f FLOAT, d DOUBLE, n DECIMAL(20,5), bt BIT(12), y YEAR,
    da DATE, ti TIME(3), dt DATETIME(6), ts TIMESTAMP NULL DEFAULT NULL,
    c CHAR(5), v VARCHAR(100) COLLATE utf8mb4_bin, bi BINARY(4), vb VARBINARY(10),
    tx TEXT, bl BLOB, lt LONGTEXT, en ENUM('one', 'it''s two'), se SET('x', 'y'), js JSON,
    up VARCHAR(100) AS (UPPER(v)) STORED,
    UNIQUE KEY by_v (v), KEY by_da (da, t DESC)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COMMENT='a table; with "quotes"';
INSERT INTO kinds (t, b, f, d, n, bt, y, da, ti, dt, ts, c, v, bi, vb, tx, bl, lt, en, se, js) VALUES
    (-128, 18446744073709551615, 1.5, 1e100, -12345.67891, b'101', 2024, '2024-02-29', '-12:34:56.789',
     '9999-12-31 23:59:59.999999', '2024-01-01 12:00:00', 'ch', 'naïve 日本語 😀', x'00FF', x'0A0D5C27',
     'a\nb\tc\\d\'e"f\0g', x'00010203FF', REPEAT('long text ', 20000), 'it''s two', 'x,y', '{"k": [1, null]}'),
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
CREATE TABLE `odd name; -- 'x'` (`a b` INT, `select` VARCHAR(10), `é` INT);
INSERT INTO `odd name; -- 'x'` VALUES (1, 'one', 2), (3, NULL, 4);
CREATE TABLE parent (id INT PRIMARY KEY);
CREATE TABLE child (id INT PRIMARY KEY AUTO_INCREMENT, parent INT NOT NULL, n INT,
    CONSTRAINT of_parent FOREIGN KEY (parent) REFERENCES parent (id) ON DELETE CASCADE);
INSERT INTO parent VALUES (1), (2);
INSERT INTO child (parent, n) VALUES (1, 10), (2, 20);
CREATE TABLE log (what VARCHAR(100));
DELIMITER //
CREATE TRIGGER child_added AFTER INSERT ON child FOR EACH ROW
BEGIN
    INSERT INTO log VALUES (CONCAT('added ', NEW.id, '; really'));
END//
CREATE PROCEDURE add_child(IN p INT, OUT c INT)
BEGIN
    INSERT INTO child (parent, n) VALUES (p, 0);
    SET c = LAST_INSERT_ID();
END//
CREATE FUNCTION doubled(n INT) RETURNS INT DETERMINISTIC NO SQL
BEGIN
    RETURN n * 2;
END//
DELIMITER ;
CREATE VIEW grown AS SELECT id, doubled(n) AS n FROM child WHERE n > 5;
