package bridge

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// A MissingError says that the options of a server name something that the server does not
// list: in Rename, Override or Expect of [ProxyOptions].
type MissingError struct {
	// Server is the alias, "" of a proxy.
	Server string
	// Name is the name that is missing.
	Name string
}

// Error names what is missing.
func (e *MissingError) Error() string {
	return fmt.Sprintf("%s does not list %.256q, which its options name", ownerOf(e.Server), e.Name)
}

// ownerOf returns what errors call a server.
func ownerOf(alias string) string {
	if alias == "" {
		return "the server"
	}
	return fmt.Sprintf("the server %q", alias)
}

// missing returns what the options name and the server does not list.
func (u *Upstream) missing(l *lists) (errs []error) {
	tools, all := make(map[string]bool), make(map[string]bool)
	for _, entry := range l.entries {
		tools[entry.name] = tools[entry.name] || entry.kind == mcp.KindTool
		all[entry.name] = all[entry.name] || isNamed(entry.kind)
	}
	names := slices.AppendSeq(slices.Clone(u.opts.Expect), maps.Keys(u.opts.Override))
	names = slices.DeleteFunc(names, func(name string) bool { return tools[name] })
	for name := range u.opts.Rename {
		if !all[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		errs = append(errs, &MissingError{Server: u.alias, Name: name})
	}
	return errs
}

// notOfferedKey is that of the reasons why a server's catalog does not have all that is
// listed or named.
type notOfferedKey struct{}

func notOffered(c *server.Catalog) []error {
	return c.Memo(notOfferedKey{}, func() any { return []error(nil) }).([]error)
}

// misconfigured joins the reasons that are for the operator to change: two entries of one
// name, and names that are missing.
func misconfigured(c *server.Catalog) error {
	return errors.Join(slices.DeleteFunc(slices.Clone(notOffered(c)), func(err error) bool {
		_, collides := errors.AsType[*server.CollisionError](err)
		_, missing := errors.AsType[*MissingError](err)
		return !collides && !missing
	})...)
}

// merge returns the catalog of all members.
func merge(before *server.Catalog, members []*member) *server.Catalog {
	parts := make([]server.Part, len(members))
	for i, m := range members {
		parts[i] = server.Part{Owner: ownerOf(m.alias), Catalog: m.Catalog()}
	}
	return server.Merge(before, parts...)
}

// checkNames returns the collisions of tools and prompts of members, unless they are in the
// catalog before. The names are made by the configuration, which can be changed; URIs are
// the servers' own.
func checkNames(before *server.Catalog, members []*member) error {
	var errs []error
	for _, collision := range added(before.Collisions(), merge(before, members).Collisions()) {
		if isNamed(collision.Kind) {
			errs = append(errs, collision)
		}
	}
	return errors.Join(errs...)
}

// added returns the errors that were not there before.
func added[E error](before, now []E) []E {
	return slices.DeleteFunc(slices.Clone(now), func(err E) bool {
		return slices.ContainsFunc(before, func(known E) bool { return known.Error() == err.Error() })
	})
}

// logNew logs why entries are not offered, if that was not so before.
func logNew[E error](logger *slog.Logger, before, now []E) {
	for _, err := range added(before, now) {
		logger.Warn("an entry of a server is not offered", "error", err)
	}
}
