package config

import (
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Options are what a file says about a server under "dovetail", for the program
// that uses it. This package itself heeds CallTimeout, InheritEnv and PassEnv only.
// The names of the members are those of the fields, beginning in lower case.
// Durations are texts such as "1m30s", or numbers of milliseconds.
type Options struct {
	// Required says that nothing should start without this server.
	Required bool
	// Lazy servers are started by the first call.
	Lazy bool
	// Shared says that all users may have the same session.
	Shared bool
	// StartTimeout bounds starting the server. 0 is the program's default.
	StartTimeout time.Duration
	// IdleTimeout is after how long without a call the server is stopped. 0 is never.
	IdleTimeout time.Duration
	// CallTimeout bounds a call. "timeout" of the server is the same. 0 is the
	// program's default.
	CallTimeout time.Duration
	// MaxCalls is how many calls the server gets at the same time. 0 is the program's
	// default.
	MaxCalls int
	// InheritEnv gives a child this process's whole environment, rather than the few
	// variables of [stdio.CommandOptions].
	InheritEnv bool
	// PassEnv names variables of this process's environment that a child gets if they
	// are set.
	PassEnv []string
	// Tools says which tools are shown, and how.
	Tools Tools
}

// Tools select and describe the tools of a server. Names are those that the server
// gives; in Allow and Deny a * stands for any text. A tool that is named here without one,
// and that the server lacks, is a [bridge.MissingError].
type Tools struct {
	// Allow are the only tools to show. None means all.
	Allow []string
	// Deny are tools not to show, even if they are allowed.
	Deny []string
	// Override is what to show instead, by name.
	Override map[string]Override
}

// An Override replaces what a server says of a tool. An empty text replaces nothing.
type Override struct {
	Name, Title, Description string
}

// Permits reports whether a tool of that name is shown.
func (t *Tools) Permits(name string) bool {
	fits := func(pattern string) bool { return matches(pattern, name) }
	return (len(t.Allow) == 0 || slices.ContainsFunc(t.Allow, fits)) && !slices.ContainsFunc(t.Deny, fits)
}

// named returns the tools that Allow and Deny name without a *.
func (t *Tools) named() []string {
	return slices.DeleteFunc(slices.Concat(t.Allow, t.Deny), func(name string) bool { return strings.Contains(name, "*") })
}

// matches looks for the pieces between the stars from left to right; the first must
// begin the name, and the last end it.
func matches(pattern, name string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, head)
	if !ok {
		return false
	}
	pieces := strings.Split(rest, "*")
	last := len(pieces) - 1
	for _, piece := range pieces[:last] {
		if _, name, ok = strings.Cut(name, piece); !ok {
			return false
		}
	}
	return strings.HasSuffix(name, pieces[last])
}

// options reads our own settings. Here an unknown member is an error: it is a
// mistake, and may be one about safety.
func (c cursor) options(o *Options) {
	c.strict("an object with options",
		into("required", &o.Required, cursor.flag),
		into("lazy", &o.Lazy, cursor.flag),
		into("shared", &o.Shared, cursor.flag),
		into("startTimeout", &o.StartTimeout, cursor.duration),
		into("idleTimeout", &o.IdleTimeout, cursor.duration),
		into("callTimeout", &o.CallTimeout, cursor.duration),
		into("maxCalls", &o.MaxCalls, cursor.count),
		into("inheritEnv", &o.InheritEnv, cursor.flag),
		into("passEnv", &o.PassEnv, func(c cursor) []string { return c.names(checkVariable) }),
		into("tools", &o.Tools, cursor.tools),
	)
}

func (c cursor) tools() (t Tools) {
	names := func(c cursor) []string { return c.names(checkTool) }
	c.strict("an object with allow, deny, override",
		field{"allow", func(c cursor) {
			if t.Allow = names(c); len(t.Allow) == 0 && c.kind() == jsonscan.Array {
				c.fail(`expected at least one name: to show no tools, deny "*"`)
			}
		}},
		into("deny", &t.Deny, names),
		field{"override", func(c cursor) {
			t.Override = make(map[string]Override)
			for tool := range c.members("an object with tools") {
				t.Override[tool.name] = tool.override()
			}
		}},
	)
	return t
}

func (c cursor) override() (o Override) {
	c.strict("an object with name, title, description",
		into("name", &o.Name, cursor.text),
		into("title", &o.Title, cursor.text),
		into("description", &o.Description, cursor.text),
	)
	return o
}

// names reads an array of texts that each pass a check.
func (c cursor) names(check func(name string) string) []string {
	return list(c, "an array of strings", func(element cursor) string {
		name := element.text()
		if wrong := check(name); wrong != "" && element.kind() == jsonscan.String {
			element.fail("%s", wrong)
		}
		return name
	})
}

func checkTool(name string) string {
	if name == "" {
		return "expected the name of a tool"
	}
	return ""
}
