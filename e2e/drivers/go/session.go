package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/go-sql-driver/mysql"
)

var background = context.Background()

// Target is what the environment says to connect to.
type Target struct {
	config *mysql.Config
	schema string
}

func newTarget(driver string) (*Target, error) {
	config := mysql.NewConfig()
	config.User = os.Getenv("DRIVER_USER")
	config.Passwd = os.Getenv("DRIVER_PASSWORD")
	config.Net = "tcp"
	config.Addr = os.Getenv("DRIVER_HOST") + ":" + os.Getenv("DRIVER_PORT")
	config.DBName = os.Getenv("DRIVER_SCHEMA")
	config.MultiStatements = true
	config.ParseTime = true
	config.TLSConfig = "false"
	if os.Getenv("DRIVER_TLS") == "on" {
		config.TLSConfig = "skip-verify"
	}
	switch driver {
	case "go":
	case "go-interpolated":
		config.InterpolateParams = true
	default:
		return nil, fmt.Errorf("unknown driver %s", driver)
	}
	return &Target{config, config.DBName}, nil
}

// Pool is database/sql's own.
type Pool struct {
	*sql.DB
}

func (target *Target) pool(size int) (*Pool, error) {
	connector, err := mysql.NewConnector(target.config)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	return &Pool{db}, nil
}

func (pool *Pool) lease() (*Session, error) {
	conn, err := pool.Conn(background)
	return &Session{conn: conn}, err
}

func (target *Target) open() (*Session, error) {
	pool, err := target.pool(1)
	if err != nil {
		return nil, err
	}
	conn, err := pool.Conn(background)
	return &Session{conn: conn, pool: pool}, err
}

// Session is one connection.
type Session struct {
	conn *sql.Conn
	tx   *sql.Tx
	// Set when it has the pool for itself.
	pool *Pool
}

// Runner is what runs statements: a connection, or its open transaction.
type Runner interface {
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	PrepareContext(context.Context, string) (*sql.Stmt, error)
}

func (session *Session) runner() Runner {
	if session.tx != nil {
		return session.tx
	}
	return session.conn
}

func (session *Session) close() error {
	err := session.conn.Close()
	if session.pool != nil {
		return errors.Join(err, session.pool.Close())
	}
	return err
}

var errUnsupported = errors.New("unsupported")

func (session *Session) step(step *Step, schema string, task int) (any, error) {
	text := filled(step.SQL, schema, task)
	params := parameters(step.Params, task)
	switch step.Op {
	case "query":
		return session.query(text, params)
	case "exec":
		return session.exec(text, params, step.HideID)
	case "batch":
		return session.batch(text, step)
	case "stream":
		return session.stream(text, step.Take)
	case "multi":
		return session.multi(text)
	case "ping":
		return "alive", session.conn.PingContext(background)
	case "begin":
		var err error
		session.tx, err = session.conn.BeginTx(background, nil)
		return "begun", err
	case "commit":
		return "committed", session.end((*sql.Tx).Commit, "COMMIT")
	case "rollback":
		return "rolled back", session.end((*sql.Tx).Rollback, "ROLLBACK")
	case "autocommit":
		return session.exec(fmt.Sprintf("SET autocommit = %v", step.On), nil, false)
	case "isolation":
		return session.exec("SET SESSION TRANSACTION ISOLATION LEVEL "+step.Level, nil, false)
	case "schema":
		return session.exec("USE `"+step.To+"`", nil, false)
	}
	return nil, errUnsupported
}

// Ends a transaction that the driver began, or one that a statement began.
func (session *Session) end(action func(*sql.Tx) error, text string) error {
	if tx := session.tx; tx != nil {
		session.tx = nil
		return action(tx)
	}
	_, err := session.conn.ExecContext(background, text)
	return err
}

func (session *Session) query(text string, params []any) (any, error) {
	rows, err := session.runner().QueryContext(background, text, params...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	return readSet(rows)
}

func (session *Session) exec(text string, params []any, hideID bool) (any, error) {
	result, err := session.runner().ExecContext(background, text, params...)
	return showResult(result, err, hideID)
}

func showResult(result sql.Result, err error, hideID bool) (any, error) {
	if err != nil {
		return nil, err
	}
	affected, _ := result.RowsAffected()
	id, _ := result.LastInsertId()
	if hideID {
		id = -1
	}
	return map[string]any{"affected": affected, "id": id}, nil
}

func readSet(rows *sql.Rows) (any, error) {
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	columns := []any{}
	for _, column := range types {
		nullable, _ := column.Nullable()
		columns = append(columns, []any{column.Name(), column.DatabaseTypeName(), nullable})
	}
	read := []any{}
	for rows.Next() {
		values, err := readRow(rows, len(types))
		if err != nil {
			return nil, err
		}
		shown := make([]any, len(values))
		for index, value := range values {
			shown[index] = show(value)
		}
		read = append(read, shown)
	}
	return map[string]any{"columns": columns, "rows": read}, rows.Err()
}

func readRow(rows *sql.Rows, count int) ([]any, error) {
	values, places := make([]any, count), make([]any, count)
	for index := range values {
		places[index] = &values[index]
	}
	return values, rows.Scan(places...)
}

// The driver has no batches: a statement is prepared and executed row by row, in a transaction.
func (session *Session) batch(text string, step *Step) (any, error) {
	rows := step.Rows
	for number := 0; number < step.Count; number++ {
		rows = append(rows, []any{fmt.Sprintf("row %d", number), number})
	}
	tx, err := session.conn.BeginTx(background, nil)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	stmt, err := tx.PrepareContext(background, text)
	if err != nil {
		return nil, err
	}
	defer stmt.Close()
	var affected int64
	for _, row := range rows {
		result, err := stmt.ExecContext(background, parameters(row, 0)...)
		if err != nil {
			return nil, err
		}
		count, _ := result.RowsAffected()
		affected += count
	}
	return affected, tx.Commit()
}

func (session *Session) stream(text string, take int) (any, error) {
	rows, err := session.runner().QueryContext(background, text)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	var seen []string
	for rows.Next() {
		values, err := readRow(rows, len(types))
		if err != nil {
			return nil, err
		}
		var shown []string
		for _, value := range values {
			shown = append(shown, show(value))
		}
		seen = append(seen, strings.Join(shown, ","))
		if take > 0 && len(seen) == take {
			break
		}
	}
	return []any{len(seen), summary([]byte(strings.Join(seen, "\n")))}, rows.Err()
}

func (session *Session) multi(text string) (any, error) {
	rows, err := session.runner().QueryContext(background, text)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var sets []any
	for {
		set, err := readSet(rows)
		if err != nil {
			return append(sets, showError(err)), nil
		}
		sets = append(sets, set)
		if !rows.NextResultSet() {
			break
		}
	}
	if err := rows.Err(); err != nil {
		sets = append(sets, showError(err))
	}
	return sets, nil
}

// Prepared is a statement prepared on the server.
type Prepared struct {
	stmt  *sql.Stmt
	reads bool
}

func (session *Session) prepare(text string) (*Prepared, error) {
	stmt, err := session.runner().PrepareContext(background, text)
	return &Prepared{stmt, strings.HasPrefix(text, "SELECT")}, err
}

func (prepared *Prepared) execute(params []any) (any, error) {
	if !prepared.reads {
		result, err := prepared.stmt.ExecContext(background, params...)
		return showResult(result, err, false)
	}
	rows, err := prepared.stmt.QueryContext(background, params...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	return readSet(rows)
}

func (prepared *Prepared) close() error {
	return prepared.stmt.Close()
}
