package code

import (
	"regexp"
	"strings"
)

// advice says what to write instead of something that models try, by the name that is not defined.
var advice = map[string]string{
	"require":        "there are no modules; call the functions of the servers",
	"module":         "there are no modules; return the value",
	"exports":        "there are no modules; return the value",
	"process":        "there is no process and no environment; call the functions of the servers",
	"Deno":           "there are no files; call the functions of the servers",
	"Bun":            "there are no files; call the functions of the servers",
	"fs":             "there are no files; call the functions of the servers",
	"fetch":          "there is no network; call the functions of the servers",
	"XMLHttpRequest": "there is no network; call the functions of the servers",
	"WebSocket":      "there is no network; call the functions of the servers",
	"axios":          "there is no network; call the functions of the servers",
	"setTimeout":     "there are no timers; await a call instead",
	"setInterval":    "there are no timers; await a call instead",
	"setImmediate":   "there are no timers; await a call instead",
	"eval":           "code cannot be made from text; write it in the script",
	"performance":    "there is no timer; Date.now() is the time of the last result",
	"print":          "write console.log",
	"Buffer":         "write atob and btoa, or Uint8Array",
}

var undefinedName = regexp.MustCompile(`ReferenceError: '?([A-Za-z_$][\w$]*)'? is not defined`)

// hint returns what to do about an error of a script, in brackets, or "".
func hint(text, source string) string {
	if name := undefinedName.FindStringSubmatch(text); name != nil {
		if known := advice[name[1]]; known != "" {
			return " (" + known + ")"
		}
		return " (the names of servers and functions are in the results of " + SearchTool + ")"
	}
	if !strings.HasPrefix(text, "SyntaxError") {
		return ""
	}
	switch {
	case shell.MatchString(source):
		return " (this is a command for a shell: write JavaScript, and call the functions of the servers)"
	case module.MatchString(source):
		return " (a script cannot import or export: the servers are global objects, and the value is what the script returns)"
	case python.MatchString(source):
		return " (this is Python: write JavaScript, and call the functions of the servers)"
	}
	return " (a script is the body of an async function in JavaScript)"
}

// What models write that is no script.
var (
	shell  = regexp.MustCompile(`^\s*(#!|(curl|ls|cat|cd|grep|echo|npm|npx|pip|git|sudo|bash|sh)\s)`)
	python = regexp.MustCompile(`(?m)^\s*(from\s+[\w.]+\s+import\s|def\s+\w+\(.*\).*:\s*$|import\s+[\w.]+\s*$|async\s+def\s|(if|for|while|with)\s.*:\s*$|print\()`)
	module = regexp.MustCompile(`(?m)^\s*(import\s+.*from\s+['"]|import\s+['"]|import\s*\{|export\s+(default|const|function|async))`)
)
