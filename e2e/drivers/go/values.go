package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const long = 200

func filled(text, schema string, task int) string {
	text = strings.ReplaceAll(text, "{schema}", schema)
	if task > 0 {
		text = strings.ReplaceAll(text, "{nn}", fmt.Sprintf("%02d", task))
		text = strings.ReplaceAll(text, "{n}", strconv.Itoa(task))
	}
	return text
}

func parameters(given []any, task int) []any {
	values := make([]any, len(given))
	for index, value := range given {
		values[index] = parameter(value, task)
	}
	return values
}

func parameter(value any, task int) any {
	switch value := value.(type) {
	case string:
		return filled(value, "", task)
	case json.Number:
		if number, err := value.Int64(); err == nil {
			return number
		}
		number, _ := value.Float64()
		return number
	case map[string]any:
		for kind, content := range value {
			return special(kind, content, task)
		}
	}
	return value
}

func special(kind string, content any, task int) any {
	text, _ := content.(string)
	switch kind {
	case "long":
		number, _ := strconv.ParseInt(text, 10, 64)
		return number
	case "bytes":
		data, _ := hex.DecodeString(text)
		return data
	case "repeat", "repeat_bytes":
		pair := content.([]any)
		count, _ := pair[1].(json.Number).Int64()
		if kind == "repeat" {
			return strings.Repeat(pair[0].(string), int(count))
		}
		data, _ := hex.DecodeString(pair[0].(string))
		return []byte(strings.Repeat(string(data), int(count)))
	case "date":
		date, _ := time.Parse("2006-01-02", text)
		return date
	case "datetime":
		date, _ := time.Parse("2006-01-02 15:04:05.999999", text)
		return date
	case "task":
		return int64(task)
	}
	// Decimals and times have no type of their own.
	return text
}

// A value as text that tells its type; long ones by length and checksum.
func show(value any) string {
	switch value := value.(type) {
	case nil:
		return "nil"
	case []byte:
		if len(value) > long {
			return "bytes:" + summary(value)
		}
		return fmt.Sprintf("bytes:%q", value)
	case string:
		if len(value) > long {
			return "string:" + summary([]byte(value))
		}
		return fmt.Sprintf("string:%q", value)
	}
	return fmt.Sprintf("%T:%v", value, value)
}

func summary(data []byte) string {
	return fmt.Sprintf("%d bytes, crc %08x", len(data), crc32.ChecksumIEEE(data))
}

func showError(err error) any {
	var server *mysql.MySQLError
	if errors.As(err, &server) {
		return map[string]any{
			"error": server.Number, "state": string(server.SQLState[:]), "message": server.Message,
		}
	}
	return map[string]any{"failure": err.Error()}
}
