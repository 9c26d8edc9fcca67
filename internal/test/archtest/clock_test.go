package archtest

import (
	"go/ast"
	"slices"
	"testing"
)

// A time without a reading of the monotonic clock follows the wall clock when that is set. Only
// times that were stored or sent may have none. The list says why a file decodes or makes such
// times.
func TestTimesKeepTheMonotonicClock(t *testing.T) {
	enforce(t, dropsMonotonicClock, exceptions{
		"approval/channel/frame.go":           "times of a request as text; the client counts its own time",
		"approval/journal_file.go":            "times in the file; the guard compares its own",
		"approval/paused.go":                  "times in a store; the guard adds them to its own",
		"approval/request.go":                 "times as text",
		"client/events.go":                    "the time of an event as text",
		"client/webhook/subscribe.go":         "the expiry of a subscription at a server",
		"bridge/internal/entrycheck/entry.go": "a time as text",
		"internal/test/httpfixture/main.go":   "a request for a browser",
		"internal/lab/killbench/kill.go":      "a duration as text",
		"internal/sse/stream.go":              "a deadline in the past, which ends a write",
		"internal/state/key.go":               "since when a secret seals, in a record that all replicas read",
		"internal/state/record.go":            "the end of a record that all replicas read",
		"internal/task/engine.go":             "the times of a task in its description",
		"internal/token/token.go":             "the expiry in a token, which any process with the key may open",
		"server/describe/bundle.go":           "the fixed time of the files in an archive",
		"server/event_log.go":                 "times in a log that replicas share, and the time of an event as text",
		"server/event_webhook.go":             "the expiry of a subscription as text, and a time in a store",
		"server/process/jobs.go":              "a time as text",
		"server/webhook/subscribe.go":         "the ends of subscriptions in a record that all replicas read",
		"server/shell/sessions.go":            "a time as text",
		"transport/oauth/dpop.go":             "the time in a proof of another machine",
		"transport/oauth/registration.go":     "the expiry of a stored registration",
		"transport/oauth/verifier.go":         "the times in a token of another machine",
		"transport/stdio/command.go":          "a deadline in the past, which ends a read",
		"transport/ws/dial.go":                "a deadline in the past, which ends a handshake",
	})
}

func TestClockRule(t *testing.T) {
	planted(t, "clock.go", "server/planted.go", dropsMonotonicClock)
	planted(t, "clean.go", "server/planted.go", dropsMonotonicClock)
}

// dropsMonotonicClock finds functions and methods of package time whose result has no reading
// of the monotonic clock. Round and Truncate count only for multiples of units, as others have
// methods with these names.
func dropsMonotonicClock(file *source) []finding {
	if file.isTest() {
		return nil
	}
	var found []finding
	ast.Inspect(file.syntax, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		called, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		name := called.Sel.Name
		x, _ := called.X.(*ast.Ident)
		of := x != nil && x.Name == "time"
		switch {
		case of && slices.Contains([]string{"Date", "Parse", "ParseInLocation", "Unix", "UnixMilli", "UnixMicro"}, name):
		case !of && len(call.Args) == 0 && slices.Contains([]string{"UTC", "Local"}, name):
		case !of && len(call.Args) == 1 && slices.Contains([]string{"Round", "Truncate"}, name) && isDuration(call.Args[0]):
		default:
			return true
		}
		found = append(found, file.at(call.Pos(), "%s drops the reading of the monotonic clock", name))
		return true
	})
	return found
}

// isDuration reports whether an expression is 0 or names a constant of package time.
func isDuration(e ast.Expr) bool {
	is := false
	ast.Inspect(e, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.BasicLit:
			is = is || node.Value == "0"
		case *ast.Ident:
			is = is || node.Name == "time"
		}
		return true
	})
	return is
}
