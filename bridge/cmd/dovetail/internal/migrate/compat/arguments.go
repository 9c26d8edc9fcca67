package compat

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Arguments are the arguments of a call, with the methods of a request of mcp-go. The server has validated them against the
// schema of the tool.
//
// Replace them, tool by tool, by a struct, and remove InputSchema from the registration: then the schema is the one of the
// struct.
type Arguments map[string]any

// BindArguments decodes the arguments into the value that target points to.
func (a Arguments) BindArguments(target any) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, target)
}

// The functions Get return a default if there is no such argument or it has another type. The functions Require return an
// error then.

func (a Arguments) GetString(name, otherwise string) string { return get(a, name, otherwise, toString) }
func (a Arguments) RequireString(name string) (string, error) {
	return require(a, name, "a string", toString)
}
func (a Arguments) GetInt(name string, otherwise int) int { return get(a, name, otherwise, toInt) }
func (a Arguments) RequireInt(name string) (int, error)   { return require(a, name, "a number", toInt) }
func (a Arguments) GetFloat(name string, otherwise float64) float64 {
	return get(a, name, otherwise, toFloat)
}
func (a Arguments) RequireFloat(name string) (float64, error) {
	return require(a, name, "a number", toFloat)
}
func (a Arguments) GetBool(name string, otherwise bool) bool { return get(a, name, otherwise, toBool) }
func (a Arguments) RequireBool(name string) (bool, error) {
	return require(a, name, "a boolean", toBool)
}
func (a Arguments) GetStringSlice(name string, otherwise []string) []string {
	return get(a, name, otherwise, listOf(toString))
}
func (a Arguments) RequireStringSlice(name string) ([]string, error) {
	return require(a, name, "a list of strings", listOf(toString))
}
func (a Arguments) GetIntSlice(name string, otherwise []int) []int {
	return get(a, name, otherwise, listOf(toInt))
}
func (a Arguments) RequireIntSlice(name string) ([]int, error) {
	return require(a, name, "a list of numbers", listOf(toInt))
}
func (a Arguments) GetFloatSlice(name string, otherwise []float64) []float64 {
	return get(a, name, otherwise, listOf(toFloat))
}
func (a Arguments) RequireFloatSlice(name string) ([]float64, error) {
	return require(a, name, "a list of numbers", listOf(toFloat))
}
func (a Arguments) GetBoolSlice(name string, otherwise []bool) []bool {
	return get(a, name, otherwise, listOf(toBool))
}
func (a Arguments) RequireBoolSlice(name string) ([]bool, error) {
	return require(a, name, "a list of booleans", listOf(toBool))
}

func get[T any](a Arguments, name string, otherwise T, convert func(any) (T, bool)) T {
	if value, ok := convert(a[name]); ok {
		return value
	}
	return otherwise
}

func require[T any](a Arguments, name, expected string, convert func(any) (T, bool)) (T, error) {
	value, ok := convert(a[name])
	switch {
	case a[name] == nil:
		return value, fmt.Errorf("required argument %q not found", name)
	case !ok:
		return value, fmt.Errorf("argument %q is not %s", name, expected)
	}
	return value, nil
}

func toString(value any) (string, bool) {
	text, ok := value.(string)
	return text, ok
}

func toFloat(value any) (float64, bool) {
	switch value := value.(type) {
	case float64:
		return value, true
	case int:
		return float64(value), true
	case json.Number: // one that float64 cannot hold
		number, err := value.Float64()
		return number, err == nil
	case string:
		number, err := strconv.ParseFloat(value, 64)
		return number, err == nil
	}
	return 0, false
}

func toInt(value any) (int, bool) {
	if exact, ok := value.(json.Number); ok {
		number, err := exact.Int64()
		return int(number), err == nil
	}
	number, ok := toFloat(value)
	return int(number), ok
}

func toBool(value any) (bool, bool) {
	switch value := value.(type) {
	case bool:
		return value, true
	case float64:
		return value != 0, true
	case int:
		return value != 0, true
	case string:
		yes, err := strconv.ParseBool(value)
		return yes, err == nil
	}
	return false, false
}

func listOf[T any](convert func(any) (T, bool)) func(any) ([]T, bool) {
	return func(value any) ([]T, bool) {
		if list, ok := value.([]T); ok {
			return list, true
		}
		values, ok := value.([]any)
		if !ok {
			return nil, false
		}
		list := make([]T, len(values))
		for i, value := range values {
			if list[i], ok = convert(value); !ok {
				return nil, false
			}
		}
		return list, true
	}
}
