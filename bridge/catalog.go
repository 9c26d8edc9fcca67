package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// catalogOf returns the catalog for a server's lists. Unchanged entries of before are reused. If two tools or prompts
// would get one name, neither is offered, so that no call reaches the wrong entry. Of two resources with one URI the
// first is offered. An entry that the server lists again with the same content counts once. Reports of entries that are
// not offered or were repaired are logged and stored with the catalog; see notOffered and repaired.
func (u *Upstream) catalogOf(l *lists, before *server.Catalog) *server.Catalog {
	type key struct {
		kind mcp.Kind
		name string
	}
	// Resources that are not selected are dropped at the end, so that no template matches them.
	uses, first := make(map[key]int), make(map[key]listed)
	listed := slices.DeleteFunc(slices.Clone(l.entries), func(entry listed) bool {
		if entry.kind != mcp.KindResource && !u.selects(entry.kind, entry.name) {
			return true
		}
		at := key{entry.kind, u.nameOf(entry)}
		if uses[at] > 0 && isEqualJSON(first[at].definition, entry.definition) {
			return true
		}
		if uses[at]++; uses[at] == 1 {
			first[at] = entry
		}
		return false
	})
	var entries []*server.Entry
	var refused reports
	for _, entry := range listed {
		at := key{entry.kind, u.nameOf(entry)}
		count := uses[at]
		uses[at] = 0
		if count == 0 {
			refused.add(&server.CollisionError{Kind: at.kind, Name: at.name, Owner: u.owner, Other: u.owner})
			continue
		}
		if count > 1 && isNamed(at.kind) {
			continue
		}
		e, err := u.entry(entry, at.name, l)
		if err != nil {
			refused.add(fmt.Errorf("the %v %+.256q of %s: %w", entry.kind, entry.name, u.owner, err))
			continue
		}
		if old := before.Lookup(at.kind, at.name); old != nil && isSame(old, e) {
			e = old
		}
		entries = append(entries, e)
	}
	opts := &server.CatalogOptions{Resolve: u.resolve, Bridges: append([]string{u.bridge}, l.bridges...), RootsChanged: u.pool.rootsChanged}
	if !l.incomplete {
		opts.Resolve = nil
		missing := reports{}
		missing.add(u.missing(l)...)
		missing.join(refused)
		refused = missing
	}
	refused.join(l.refused)
	c := server.NewCatalog(entries, opts).Map(func(e *server.Entry) *server.Entry {
		if !u.selects(e.Kind, e.Origin.Name) {
			return nil
		}
		return e
	})
	c.Memo(notOfferedKey{}, func() any { return refused.all("are not offered") })
	c.Memo(repairedKey{}, func() any { return l.repaired.all("were repaired") })
	logNew(u.opts.Logger, entryNotOffered, notOffered(before), notOffered(c))
	logNew(u.opts.Logger, "an entry of a server is not valid and was repaired", repaired(before), repaired(c))
	return c
}

// isEqualJSON reports whether two texts have the same JSON value.
func isEqualJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	decode := func(text []byte) (value any, ok bool) {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		return value, decoder.Decode(&value) == nil
	}
	first, ok := decode(a)
	second, alsoOK := decode(b)
	return ok && alsoOK && reflect.DeepEqual(first, second)
}

// isNamed reports whether entries of a kind are renamed by a bridge.
func isNamed(kind mcp.Kind) bool {
	return kind == mcp.KindTool || kind == mcp.KindPrompt || kind == mcp.KindEvent
}

func isSame(old, now *server.Entry) bool {
	return old.Kind == now.Kind && old.Origin == now.Origin && (old.Complete == nil) == (now.Complete == nil) && old.Task == now.Task &&
		bytes.Equal(old.Definition.JSON(), now.Definition.JSON())
}

func (u *Upstream) selects(kind mcp.Kind, name string) bool {
	return u.opts.Select == nil || u.opts.Select(kind, name)
}

// nameOf returns the offered name of a listed entry.
func (u *Upstream) nameOf(l listed) string {
	if !isNamed(l.kind) {
		return l.name
	}
	if renamed, ok := u.opts.Rename[l.name]; ok {
		return u.nameAs(l.kind, renamed)
	}
	return u.nameAs(l.kind, l.name)
}

// nameAs returns the name in the bridge for a name at the server.
func (u *Upstream) nameAs(kind mcp.Kind, name string) string {
	if kind == mcp.KindEvent {
		return u.eventName(name)
	}
	return u.offeredName(name)
}

// entry returns the entry to offer for a listed entry.
func (u *Upstream) entry(l listed, name string, of *lists) (*server.Entry, error) {
	definition, err := u.definition(l, name)
	if err != nil {
		return nil, err
	}
	originalName := l.name
	if originalName == name {
		originalName = "" // calls keep their name
	}
	e := &server.Entry{Target: mcp.Target{
		Kind: l.kind, Name: name, Definition: mcp.NewDefinition(definition),
		Origin: mcp.Origin{Server: u.alias, Name: l.name, Launch: u.opts.Launch, Trusted: u.opts.Trusted},
	}}
	support := of.taskSupportOf(l)
	e.Handle = u.forward(e, forwarding{name: originalName, tasks: support})
	if !isNamed(l.kind) {
		e.Subscribe = func(ctx context.Context, call *mcp.Call) (func(), error) { return u.subscribe(ctx, call.URI()) }
	}
	if l.kind == mcp.KindResourceTemplate {
		e.Match = matcherOf(l.name)
	}
	if l.kind == mcp.KindTool {
		e.Tasks, e.Forwards = u.answerTask, true
		if support != noTasks {
			e.Task = server.TaskOptional
		}
	}
	if l.kind == mcp.KindSkill {
		e.Match = filesOf(l)
		e.Handle = u.forwardSkill(e)
	}
	if of.completes && (l.kind == mcp.KindPrompt || l.kind == mcp.KindResourceTemplate) {
		e.Complete = e.Handle
	}
	return e, nil
}

// definition returns the definition of an entry with the offered name and the overrides.
func (u *Upstream) definition(l listed, name string) ([]byte, error) {
	var edits []jsonscan.Edit
	replace := func(member, value string) {
		edits = append(edits, jsonscan.Edit{Name: member, Value: jsonscan.AppendString(nil, value)})
	}
	if name != l.name {
		replace("name", name)
	}
	if override := u.opts.Override[l.name]; l.kind == mcp.KindTool {
		if override.Title != "" {
			replace("title", override.Title)
		}
		if override.Description != "" {
			replace("description", override.Description)
		}
	}
	if len(edits) == 0 {
		return l.definition, nil
	}
	return jsonscan.Splice(nil, l.definition, edits...)
}

// matcherOf returns a function that matches URIs with a template. It returns nil for a
// template that cannot be matched: then only listed resources can be read.
func matcherOf(template string) func(uri string) bool {
	parsed, err := uritemplate.Parse(template)
	if err != nil {
		return nil
	}
	matcher, err := parsed.Matcher()
	if err != nil {
		return nil
	}
	return func(uri string) bool {
		_, ok := matcher.Match(uri)
		return ok
	}
}

// filesOf returns a function that matches the URIs of a skill's files, which a server need not list as
// resources. It returns nil for an invalid skill.
func filesOf(l listed) func(uri string) bool {
	var skill mcp.Skill
	if skill.UnmarshalJSON(l.definition) != nil || skill.Root() == "" {
		return nil
	}
	if skill.Dynamic {
		return func(uri string) bool { return strings.HasPrefix(uri, skill.Root()+"/") }
	}
	files := make(map[string]bool, len(skill.Resources))
	for _, file := range skill.Resources {
		if strings.HasPrefix(file.URI, skill.Root()+"/") {
			files[file.URI] = true
		}
	}
	return func(uri string) bool { return files[uri] }
}

// forwardSkill returns the handler of a skill. It does not ask a server to list a directory that does
// not declare that it can. The entries of a directory are made valid.
func (u *Upstream) forwardSkill(e *server.Entry) mcp.Handler {
	forward := u.forward(e, forwarding{})
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		if call.Method() == mcp.MethodDirectoryRead && !u.listsDirectories.Load() {
			return nil, mcp.ResourceNotFound(call.URI())
		}
		result, err := forward(ctx, call)
		if err != nil || call.Method() != mcp.MethodDirectoryRead {
			return result, err
		}
		page, err := result.AppendJSON(nil)
		if err != nil {
			return nil, err
		}
		return mcp.Raw(listMethodOf(call.Method()).valid(page, u.opts.Logger)), nil
	}
}

// A forwarding says how calls are forwarded to a server.
type forwarding struct {
	name  string      // at the server; "" if a call must not be renamed
	tasks taskSupport // of the tool
}

// forward returns the handler that forwards calls to the server.
func (u *Upstream) forward(e *server.Entry, how forwarding) mcp.Handler {
	return func(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
		if err := u.checkCached(ctx, e); err != nil {
			return nil, err
		}
		if how.tasks == mayBeTask || how.tasks == mustBeTask { // the task of the server belongs to a session
			if err := call.BecomeTask(mcp.TaskRequest{}); err != nil {
				return nil, err
			}
		}
		if call.TaskID() != "" {
			return u.runTask(ctx, call, how)
		}
		return u.send(ctx, call, how)
	}
}

// send sends one call to the server. A call that did not reach the server, because the session had ended, is sent in the
// next session.
func (u *Upstream) send(ctx context.Context, call *mcp.Call, how forwarding) (mcp.Result, error) {
	if call.Method() != mcp.MethodEventsStream { // which lasts and does not run
		if err := u.limit.acquire(ctx); err != nil {
			return nil, notRun(ctx, u.alias, err)
		}
		defer u.limit.release()
	}
	delivery := jsonrpc.NotSent // of earlier attempts
	var s *managedSession
	suspended := false
	defer func() {
		if s != nil {
			s.release(ctx, suspended)
		}
	}()
	for again := 0; ; again++ {
		session, acquired, err := u.pool.acquire(ctx, call.Caller)
		if err != nil {
			return nil, atLeast(delivery, notRun(ctx, u.alias, err))
		}
		s = acquired
		result, err := session.Forward(ctx, call, &client.ForwardOptions{
			Name: how.name, ServerLabel: u.alias, Timeout: u.opts.CallTimeout, AsTask: how.tasks == mustBeTask,
		})
		if err == nil {
			// A server that is a child process keeps its tasks in memory.
			_, isTask := result.(*mcp.Task)
			suspended = isTask || call.Method() == mcp.MethodTasksGet
			s.recordAnswer()
			return result, nil
		}
		if again == maxSentAgain || !maySendAgain(call, err) || s.waitReplaced(ctx, session) != nil {
			_, suspended = mcp.AsInputRequired(err)
			return nil, atLeast(delivery, failed(ctx, u.alias, err))
		}
		s.release(ctx, false)
		s = nil
		if lost, ok := errors.AsType[*jsonrpc.CallError](err); ok && lost.Delivery == jsonrpc.MaybeExecuted {
			delivery = lost.Delivery
		}
	}
}

// atLeast returns the error of the last attempt to send a call, of which an earlier attempt may have been executed.
func atLeast(delivery jsonrpc.Delivery, err error) error {
	if last, ok := errors.AsType[*UpstreamError](err); ok && delivery == jsonrpc.MaybeExecuted {
		return &UpstreamError{Server: last.Server, Failure: last.Failure, Delivery: delivery, Err: last.Err}
	}
	return err
}

// maxSentAgain is how often a call is sent again at most. A server may lose each session.
const maxSentAgain = 3

// maySendAgain reports whether a call that failed with err, because its session ended, may be sent in the next session. A
// call that may have been executed is sent again only if the server has lost the session, which says nothing against the
// call, and the call of a tool of a trusted server has no further effect.
func maySendAgain(call *mcp.Call, err error) bool {
	failed, ok := errors.AsType[*jsonrpc.CallError](err)
	if !ok || !errors.Is(failed, jsonrpc.ErrClosed) {
		return false
	}
	if failed.Delivery == jsonrpc.NotSent {
		return true
	}
	target := call.Target()
	if !errors.Is(failed, transport.ErrSessionLost) || call.Method() != mcp.MethodToolsCall || target == nil || !target.Origin.Trusted {
		return false
	}
	hints := target.Definition.Annotations()
	return hints.ReadOnlyHint != nil && *hints.ReadOnlyHint || hints.IdempotentHint != nil && *hints.IdempotentHint
}

// checkCached starts the server if e may be an entry of a cached catalog. Guards have
// checked the call against the cached definition, so a tool whose definition has changed
// since is not called.
func (u *Upstream) checkCached(ctx context.Context, e *server.Entry) error {
	if !u.pool.main.lazy || isClosed(u.loaded) {
		return nil
	}
	if err := u.startLazy(ctx); err != nil {
		return err
	}
	if now := u.Catalog().Lookup(e.Kind, e.Name); now == nil || e.Kind == mcp.KindTool && now.Definition.Digest() != e.Definition.Digest() {
		return &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: fmt.Sprintf("the definition of the %v has changed: read the list again", e.Kind)}
	}
	return nil
}

// startLazy starts the server if it is idle, and waits until its lists have been read.
func (u *Upstream) startLazy(ctx context.Context) error {
	if err := u.pool.waitStarted(ctx); err != nil {
		return notRun(ctx, u.alias, err)
	}
	u.pool.main.requestOpen()
	return u.waitReady(ctx)
}

// resolve finds an entry of a server whose lists have not been read yet: it starts a lazy
// server and waits for the lists. Names of tools and prompts select the server by prefix, unless
// Select or Rename leaves them out. A URI could be of any server of a bridge: resolve waits for
// each one that is starting, starts none that has a cached catalog, and skips those that fail.
func (u *Upstream) resolve(ctx context.Context, kind mcp.Kind, name string) (*server.Entry, error) {
	if isClosed(u.loaded) {
		return u.Catalog().Lookup(kind, name), nil
	}
	byPrefix := u.alias == "" || isNamed(kind)
	if byPrefix && !strings.HasPrefix(name, u.prefix) || !byPrefix && u.pool.main.lazy || u.leavesOut(kind, name) {
		return nil, nil
	}
	err := u.startLazy(ctx)
	if err != nil && (byPrefix || ctx.Err() != nil) {
		return nil, err
	}
	return u.Catalog().Lookup(kind, name), nil
}

// leavesOut reports whether ProxyOptions.Select or Rename leaves out a tool or prompt with the
// offered name, whatever the server lists.
func (u *Upstream) leavesOut(kind mcp.Kind, name string) bool {
	if !isNamed(kind) {
		return false
	}
	for original, renamed := range u.opts.Rename {
		if u.nameAs(kind, renamed) == name && u.selects(kind, original) {
			return false
		}
	}
	original := strings.TrimPrefix(name, u.prefix)
	if _, renamed := u.opts.Rename[original]; renamed {
		return true
	}
	return u.nameAs(kind, original) == name && !u.selects(kind, original) // a long name differs from u.prefix and the original
}

type unprefixedKey struct{}

// resolveUnprefixed finds the tool that exactly one server lists under a name.
func (b *Bridge) resolveUnprefixed(_ context.Context, kind mcp.Kind, name string) (*server.Entry, error) {
	if kind != mcp.KindTool {
		return nil, nil
	}
	for _, m := range *b.members.Load() {
		if m.prefix != "" && strings.HasPrefix(name, m.prefix) {
			return nil, nil // a name of that server, whatever other servers call their tools
		}
	}
	c := mergedProvider{b}.Catalog()
	return c.Memo(unprefixedKey{}, func() any {
		tools := make(map[string]*server.Entry, c.Len(mcp.KindTool))
		for e := range c.All(mcp.KindTool) {
			own := e.Origin.Name
			if _, ambiguous := tools[own]; ambiguous {
				e = nil
			}
			tools[own] = e
		}
		return tools
	}).(map[string]*server.Entry)[name], nil
}

// changes returns the lists that differ between two catalogs. A change of templates or skills is a
// change of resources.
func changes(before, now *server.Catalog) (found []mcp.Change) {
	for _, m := range listMethods {
		kind, change := m.kind, mcp.Change{Kind: m.kind}
		if kind == mcp.KindResourceTemplate || kind == mcp.KindSkill {
			change.Kind = mcp.KindResource
		}
		if !sameList(kind, before, now) && !slices.Contains(found, change) {
			found = append(found, change)
		}
	}
	return found
}

func sameList(kind mcp.Kind, a, b *server.Catalog) bool {
	return slices.EqualFunc(slices.Collect(a.All(kind)), slices.Collect(b.All(kind)), func(a, b *server.Entry) bool {
		return a == b || a.Name == b.Name && bytes.Equal(a.Definition.JSON(), b.Definition.JSON())
	})
}

// A MissingError says that Rename, Override or Expect of [ProxyOptions] names a tool, or
// Rename a prompt, that the server does not list.
type MissingError struct {
	// Server is the alias, "" for a proxy.
	Server string
	// Name is the missing name.
	Name string
}

// Error names the server and the missing name.
func (e *MissingError) Error() string {
	return fmt.Sprintf("%s does not list %+.256q, which its options name", ownerOf(e.Server), e.Name)
}

// ownerOf returns the name of a server in errors.
func ownerOf(alias string) string {
	if alias == "" {
		return "the server"
	}
	return fmt.Sprintf("the server %q", alias)
}

// missing returns a MissingError for each name in the options that the server does not list.
func (u *Upstream) missing(l *lists) (errs []error) {
	tools, named := make(map[string]bool), make(map[string]bool)
	for _, entry := range l.entries {
		tools[entry.name] = tools[entry.name] || entry.kind == mcp.KindTool
		named[entry.name] = named[entry.name] || isNamed(entry.kind)
	}
	names := slices.AppendSeq(slices.Clone(u.opts.Expect), maps.Keys(u.opts.Override))
	names = slices.DeleteFunc(names, func(name string) bool { return tools[name] })
	for name := range u.opts.Rename {
		if !named[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		errs = append(errs, &MissingError{Server: u.alias, Name: name})
	}
	return errs
}

type (
	notOfferedKey struct{}
	repairedKey   struct{}
)

// notOffered returns the errors of the entries that catalogOf left out.
func notOffered(c *server.Catalog) []error {
	return c.Memo(notOfferedKey{}, func() any { return []error(nil) }).([]error)
}

// repaired returns what was repaired in the entries of catalogOf.
func repaired(c *server.Catalog) []error {
	return c.Memo(repairedKey{}, func() any { return []error(nil) }).([]error)
}

// misconfigured joins the errors of a catalog that the operator has to correct: collisions
// and missing names.
func misconfigured(c *server.Catalog) error {
	return errors.Join(slices.DeleteFunc(slices.Clone(notOffered(c)), func(err error) bool {
		_, collides := errors.AsType[*server.CollisionError](err)
		_, missing := errors.AsType[*MissingError](err)
		return !collides && !missing
	})...)
}

// A mergedCatalog is the catalog of all members, with the catalogs that it was merged from.
type mergedCatalog struct {
	*server.Catalog
	parts []server.Part
}

// isOf reports whether merge would return the same catalog. It allocates nothing, since each call looks up the catalog.
func (c *mergedCatalog) isOf(members []*member) bool {
	if len(c.parts) != len(members)+1 {
		return false
	}
	for i, m := range members {
		if c.parts[i].Catalog != m.Catalog() {
			return false
		}
	}
	return true
}

// merge returns the catalog of all members. self is the catalog with the id of the bridge.
func merge(before *mergedCatalog, self *server.Catalog, members []*member) *mergedCatalog {
	parts := make([]server.Part, 0, len(members)+1)
	for _, m := range members {
		parts = append(parts, server.Part{Owner: m.owner, Catalog: m.Catalog()})
	}
	parts = append(parts, server.Part{Owner: "the bridge", Catalog: self})
	return &mergedCatalog{server.Merge(before.Catalog, parts...), parts}
}

// checkNames joins the collisions of tools and prompts of members that are not in before.
// Collisions of resources are not errors: the servers choose URIs, not the configuration.
func checkNames(before *mergedCatalog, self *server.Catalog, members []*member) error {
	var errs []error
	for _, collision := range newErrors(before.Collisions(), merge(before, self, members).Collisions()) {
		if isNamed(collision.Kind) {
			errs = append(errs, collision)
		}
	}
	return errors.Join(errs...)
}

// newErrors returns the errors in now that are not in before.
func newErrors[E error](before, now []E) []E {
	known := make(map[string]bool, len(before)) // there may be many
	for _, err := range before {
		known[err.Error()] = true
	}
	return slices.DeleteFunc(slices.Clone(now), func(err E) bool { return known[err.Error()] })
}

const entryNotOffered = "an entry of a server is not offered"

// logNew logs a message for each error in now that is not in before.
func logNew[E error](logger *slog.Logger, message string, before, now []E) {
	added := newErrors(before, now)
	for i, err := range added {
		if i == maxReports {
			logger.Warn(message, "more", len(added)-maxReports)
			break
		}
		logger.Warn(message, "error", err)
	}
}
