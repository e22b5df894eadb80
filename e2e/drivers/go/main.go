// Carries out the scenario with go-sql-driver/mysql and prints a JSON line for each step.
//
//	program DRIVER SCENARIO
//
// DRIVER is `go` (the driver prepares what has parameters) or `go-interpolated` (it puts them into
// the text).
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync"
)

// Step is one step of the scenario.
type Step struct {
	Name      string `json:"name"`
	Op        string `json:"op"`
	Conn      string `json:"conn"`
	SQL       string `json:"sql"`
	Params    []any  `json:"params"`
	Rows      [][]any
	Count     int
	Take      int
	Stmt      string
	On        bool
	Level     string
	To        string
	Procedure string
	Size      int
	Tasks     int
	Steps     []Step
	HideID    bool `json:"hide_id"`
}

// Program holds the connections and prepared statements of a run by their names.
type Program struct {
	target   *Target
	sessions map[string]*Session
	stmts    map[string]*Prepared
}

func emit(name string, result any) {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	// The key `step` must come first.
	_ = encoder.Encode(struct {
		Step   string `json:"step"`
		Result any    `json:"result"`
	}{name, result})
	os.Stdout.Write(line.Bytes())
}

func (program *Program) run(step *Step) any {
	result, err := program.step(step)
	if err != nil {
		return showError(err)
	}
	return result
}

func (program *Program) step(step *Step) (any, error) {
	switch step.Op {
	case "open":
		session, err := program.target.open()
		program.sessions[step.Conn] = session
		return "open", err
	case "pool":
		return program.pool(step)
	case "prepare":
		stmt, err := program.sessions[step.Conn].prepare(filled(step.SQL, program.target.schema, 0))
		program.stmts[step.Stmt] = stmt
		return "prepared", err
	case "execute":
		return program.stmts[step.Stmt].execute(parameters(step.Params, 0))
	case "close_stmt":
		return "closed", program.stmts[step.Stmt].close()
	case "close":
		return "closed", program.sessions[step.Conn].close()
	}
	return program.sessions[step.Conn].step(step, program.target.schema, 0)
}

// Every task checks a connection out, carries out its steps, and gives it back.
func (program *Program) pool(step *Step) (any, error) {
	db, err := program.target.pool(step.Size)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	results := make([]any, step.Tasks)
	var group sync.WaitGroup
	for task := 1; task <= step.Tasks; task++ {
		group.Add(1)
		go func(task int) {
			defer group.Done()
			results[task-1] = program.task(db, step, task)
		}(task)
	}
	group.Wait()
	return results, nil
}

func (program *Program) task(db *Pool, step *Step, task int) any {
	session, err := db.lease()
	if err != nil {
		return showError(err)
	}
	defer session.close()
	var lines []any
	for index := range step.Steps {
		inner := &step.Steps[index]
		result, err := session.step(inner, program.target.schema, task)
		if err != nil {
			result = showError(err)
		}
		lines = append(lines, []any{inner.Name, result})
	}
	return lines
}

func main() {
	target, err := newTarget(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	text, err := os.ReadFile(os.Args[2])
	var steps []Step
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(text))
		// Numbers stay as they are written: a BIGINT does not fit into a float.
		decoder.UseNumber()
		err = decoder.Decode(&steps)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	program := &Program{target, map[string]*Session{}, map[string]*Prepared{}}
	for index := range steps {
		emit(steps[index].Name, program.run(&steps[index]))
	}
}
