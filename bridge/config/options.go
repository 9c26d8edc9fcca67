package config

import (
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Options are the settings of a server under "dovetail". [Resolved.Bridge] uses all of them,
// [Resolved.Dialer] CallTimeout, InheritEnv and PassEnv only. The members have the names of the
// fields, with a lower-case first letter. Durations are strings such as "1m30s", or numbers of
// milliseconds.
type Options struct {
	// Required makes the start of the bridge fail if this server cannot be started.
	Required bool
	// Lazy starts the server with the first call; see [bridge.ProxyOptions].
	Lazy bool
	// Sessions is the maximum number of sessions; see [bridge.ProxyOptions].
	Sessions int
	// Auth says whose login the server gets.
	Auth Auth
	// StartTimeout bounds starting the server. 0 means the program's default.
	StartTimeout time.Duration
	// IdleTimeout stops the server after this long without a call. 0 means the program's
	// default.
	IdleTimeout time.Duration
	// CallTimeout bounds a call. The member "timeout" of the server means the same. 0 means
	// the program's default.
	CallTimeout time.Duration
	// MaxCalls is how many calls may run at the same time. 0 means the program's default.
	MaxCalls int
	// InheritEnv gives a child process the whole environment of this process instead of
	// the few variables of [stdio.CommandOptions].
	InheritEnv bool
	// PassEnv names environment variables of this process that a child process gets if
	// they are set.
	PassEnv []string
	// Tools selects and renames tools.
	Tools Tools
}

// An Auth says whose login a remote server gets. With the zero value, the server gets that of the program, if there is one, in a
// session for each user.
type Auth string

const (
	// AuthNone means that the server gets no login, and all users share one session.
	AuthNone Auth = "none"
	// AuthShared means that the server gets the login of the program, if there is one, and all users share one session.
	AuthShared Auth = "shared"
	// AuthUser means that each user has an account of its own at the server, which it connects.
	AuthUser Auth = "user"
	// AuthExchange means that each user has a token of its own, for which its token at this program is exchanged at
	// the authorization server of the [OAuth] registration (RFC 8693).
	AuthExchange Auth = "exchange"
	// AuthEnterprise means that each user has a token of its own, which the identity provider of this program grants
	// (Enterprise-Managed Authorization).
	AuthEnterprise Auth = "enterprise"
)

// IsOfUser reports whether each user has a login of its own. The program supplies [bridge.ProxyOptions].DialAs then.
func (a Auth) IsOfUser() bool { return a == AuthUser || a == AuthExchange || a == AuthEnterprise }

// auth reads an [Auth].
func (c cursor) auth() Auth {
	auth := Auth(c.text())
	if !slices.Contains([]Auth{AuthNone, AuthShared, AuthUser, AuthExchange, AuthEnterprise}, auth) && c.kind() == jsonscan.String {
		c.fail("expected %s, %s, %s, %s or %s", AuthNone, AuthShared, AuthUser, AuthExchange, AuthEnterprise)
	}
	return auth
}

// checkAuth reports an auth that does not fit the other members of a server.
func (g serverMembers) checkAuth(s *Server) {
	o := &s.Options
	m, ok := g["dovetail"]
	registration := OAuth{}
	if s.OAuth != nil {
		registration = *s.OAuth
	}
	switch {
	case !ok || o.Auth == "":
	case !o.Auth.IsOfUser() && o.Sessions > 1:
		m.fail("with auth %s all users share one session: leave out sessions", o.Auth)
	case !o.Auth.IsOfUser():
		o.Sessions = 1
	case s.Type == typeStdio:
		m.fail("auth %s is for a server at a URL: a program has no login", o.Auth)
	case slices.ContainsFunc(sortedKeys(s.Headers), func(name string) bool { return strings.EqualFold(name, "Authorization") }):
		m.fail("auth %s replaces the header Authorization, which is the same for all users: expected one of them", o.Auth)
	case o.Sessions == 1:
		m.fail("auth %s gives each user a session: leave out sessions, or expect more than 1", o.Auth)
	case o.Auth != AuthUser && (registration.ClientID == "" || registration.Issuer == ""):
		m.fail("auth %s needs oauth with clientId and issuer: the tokens of users are sent to no other authorization server", o.Auth)
	}
}

// Tools select and rename the tools of a server, by their names on the server. In Allow and
// Deny, * matches any text. A name without * that the server does not have is a
// [bridge.MissingError].
type Tools struct {
	// Allow are the only tools to offer. If it is empty, all are offered.
	Allow []string
	// Deny are tools not to offer. It takes precedence over Allow.
	Deny []string
	// Override replaces names and texts.
	Override map[string]Override
}

// An Override replaces texts in the definition of a tool. An empty text replaces nothing.
type Override struct {
	Name, Title, Description string
}

// permits reports whether a tool is offered.
func (t *Tools) permits(name string) bool {
	match := func(pattern string) bool { return matches(pattern, name) }
	return (len(t.Allow) == 0 || slices.ContainsFunc(t.Allow, match)) && !slices.ContainsFunc(t.Deny, match)
}

// named returns the names without * in Allow and Deny.
func (t *Tools) named() []string {
	return slices.DeleteFunc(slices.Concat(t.Allow, t.Deny), func(name string) bool { return strings.Contains(name, "*") })
}

// matches reports whether a name matches a pattern in which * matches any text.
func matches(pattern, name string) bool {
	prefix, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return false
	}
	parts := strings.Split(rest, "*")
	suffix := parts[len(parts)-1]
	for _, part := range parts[:len(parts)-1] {
		if _, name, ok = strings.Cut(name, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(name, suffix)
}

// options reads the settings under "dovetail". Unknown members are errors, since a misspelled
// setting could be one about security.
func (c cursor) options(o *Options) {
	c.strict("an object with options",
		into("required", &o.Required, cursor.flag),
		into("lazy", &o.Lazy, cursor.flag),
		into("sessions", &o.Sessions, cursor.count),
		into("auth", &o.Auth, cursor.auth),
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
		memberReader{"allow", func(c cursor) {
			if t.Allow = names(c); len(t.Allow) == 0 && c.kind() == jsonscan.Array {
				c.fail(`expected at least one name: to offer no tools, deny "*"`)
			}
		}},
		into("deny", &t.Deny, names),
		memberReader{"override", func(c cursor) {
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

// names reads an array of strings. check describes an error in a name, or returns "".
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
