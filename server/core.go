package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// core implements [era.Core].
type core struct{ *Server }

// A toolRefusal is the error of a guard that callers of a tool get as a result.
type toolRefusal interface {
	error
	ToolResult() *mcp.CallToolResult // nil: a protocol error
}

// Serve answers a call over the protocol. Unlike [Server.Serve], it returns refusals of guards as tool
// results where the guard wants that.
func (c core) Serve(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	result, err := c.Server.Serve(ctx, call)
	if err != nil && call.Method() == mcp.MethodToolsCall {
		if refusal, ok := errors.AsType[toolRefusal](err); ok {
			if said := refusal.ToolResult(); said != nil {
				return said, nil
			}
		}
	}
	return result, err
}

// SessionOpened calls Options.OnSession.
func (c core) SessionOpened(caller *mcp.Caller) (ended func(reason error)) {
	if c.options.OnSession == nil {
		return nil
	}
	return c.options.OnSession(caller)
}

// Failed logs an error and returns the error for the caller, which only has a reference to the log.
func (c core) Failed(method string, err error) error {
	return c.internalError("a call failed", "method", method, "error", err)
}

// Describe returns the server's description, and begins to start the server. It does not block.
// While the server is starting, it declares all kinds of entries, since any may still appear. The
// error is that of a failed start.
func (c core) Describe() (*era.Description, error) {
	started, err := c.life.started()
	if err != nil {
		return nil, err
	}
	catalog, state := c.Catalog(), 0
	if started {
		state = 1
	}
	if d := catalog.described[state].Load(); d != nil {
		return d, nil
	}
	hint := c.options.CacheHint
	if catalog.hasHidden() {
		hint.Scope = mcp.CachePrivate
	}
	catalog.described[state].CompareAndSwap(nil, &era.Description{
		Info: c.info, Capabilities: c.capabilities(catalog, !started || catalog.partial),
		Instructions: c.options.Instructions, CacheHint: hint,
	})
	return catalog.described[state].Load(), nil
}

// meta returns the _meta of lists, or nil.
func (c *Catalog) meta() mcp.Meta {
	if len(c.bridges) == 0 {
		return nil
	}
	out := append(jsonscan.AppendString([]byte{'{'}, mcp.MetaBridges), ":["...)
	for i, id := range c.bridges {
		if i > 0 {
			out = append(out, ',')
		}
		out = jsonscan.AppendString(out, id)
	}
	return mcp.Meta(append(out, "]}"...))
}

// capabilities returns the declared capabilities. If more is true, entries of any kind may still
// appear.
func (s *Server) capabilities(c *Catalog, more bool) mcp.ServerCapabilities {
	if s.options.Capabilities != nil {
		return *s.options.Capabilities
	}
	has := mcp.ServerCapabilities{Logging: &mcp.LoggingCapability{}}
	if more || c.Len(mcp.KindTool) > 0 {
		has.Tools = &mcp.ToolsCapability{ListChanged: true}
	}
	if more || c.Len(mcp.KindPrompt) > 0 {
		has.Prompts = &mcp.PromptsCapability{ListChanged: true}
	}
	if more || c.Len(mcp.KindResource)+c.Len(mcp.KindResourceTemplate)+c.Len(mcp.KindSkill) > 0 {
		has.Resources = &mcp.ResourcesCapability{ListChanged: true, Subscribe: true}
	}
	if more || c.completes() {
		has.Completions = &mcp.CompletionsCapability{}
	}
	if c.hasTasks() {
		has.Extensions = withExtension(has.Extensions, mcp.ExtensionTasks, "{}")
		has.Tasks = json.RawMessage(`{"cancel":{},"requests":{"tools":{"call":{}}}}`)
	}
	if more || c.Len(mcp.KindSkill) > 0 {
		has.Extensions = withExtension(has.Extensions, mcp.ExtensionSkills, `{"directoryRead":true}`)
	}
	if c.partial || c.Len(mcp.KindEvent) > 0 {
		has.Extensions = withExtension(has.Extensions, mcp.ExtensionEvents, `{"listChanged":true}`)
	}
	return has
}

// withExtension adds the settings of an extension.
func withExtension(all map[string]json.RawMessage, extension, settings string) map[string]json.RawMessage {
	if all == nil {
		all = make(map[string]json.RawMessage, 1)
	}
	all[extension] = json.RawMessage(settings)
	return all
}

// completes reports whether any prompt or template has completions.
func (c *Catalog) completes() bool {
	for _, kind := range []mcp.Kind{mcp.KindPrompt, mcp.KindResourceTemplate} {
		for e := range c.All(kind) {
			if e.Complete != nil {
				return true
			}
		}
	}
	return false
}

// A list is the encoded answer to a list method for callers who see all entries.
type list struct {
	once     sync.Once
	filtered bool    // some callers do not see some entries
	encoded  mcp.Raw // the first page, unless the server has a smaller limit of entries
	next     int     // the number of entries of encoded
}

// listMembers are the names of the members that hold the entries.
var listMembers = [kindCount]string{
	mcp.KindTool: "tools", mcp.KindPrompt: "prompts", mcp.KindResource: "resources", mcp.KindResourceTemplate: "resourceTemplates",
	mcp.KindSkill: "skills", mcp.KindEvent: "events",
}

func (c *Catalog) list(kind mcp.Kind) *list {
	l := &c.lists[kind]
	l.once.Do(func() {
		l.encoded, l.next = encodePage(kind, c.entries[kind], 0, c.meta())
		l.filtered = slices.ContainsFunc(c.entries[kind], func(e *Entry) bool { return e.Visible != nil })
	})
	return l
}

// hasHidden reports whether any list differs between callers.
func (c *Catalog) hasHidden() bool {
	for kind := mcp.KindTool; kind < kindCount; kind++ {
		if c.list(kind).filtered {
			return true
		}
	}
	return false
}

// encodeList returns one page of a list. next is the cursor of the next page, or "". meta may be nil.
func encodeList(kind mcp.Kind, entries []*Entry, next string, meta mcp.Meta) mcp.Raw {
	size := 64 + len(next) + len(meta)
	for _, e := range entries {
		size += len(e.Definition.JSON()) + 1
	}
	out := append(make([]byte, 0, size), `{"`...)
	out = append(append(out, listMembers[kind]...), `":[`...)
	for i, e := range entries {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, e.Definition.JSON()...)
	}
	out = append(out, ']')
	if next != "" {
		out = jsonscan.AppendString(append(out, `,"nextCursor":`...), next)
	}
	if meta != nil {
		out = append(append(out, `,"_meta":`...), meta...)
	}
	return append(out, '}')
}

// list answers a list method with the entries that the caller sees.
func (s *Server) list(ctx context.Context, call *mcp.Call, kind mcp.Kind) (mcp.Result, error) {
	catalog, size, cursor := s.Catalog(), s.options.PageSize, cursorOf(call)
	l := catalog.list(kind)
	if !l.filtered && cursor == nil && (size <= 0 || size >= l.next) {
		return l.encoded, nil
	}
	entries := catalog.entries[kind]
	if l.filtered {
		entries = slices.DeleteFunc(slices.Clone(entries), func(e *Entry) bool { return e.Visible != nil && !e.Visible(ctx, call.Caller) })
	}
	start, err := pageStart(entries, cursor)
	if err != nil {
		return nil, err
	}
	page, _ := encodePage(kind, entries[start:], size, catalog.meta())
	return page, nil
}

// cursorOf returns the cursor of a call, or nil for the first page.
func cursorOf(call *mcp.Call) json.RawMessage {
	cursor := call.Member("cursor")
	if string(cursor) == "null" || string(cursor) == `""` { // some clients send them for the first page
		return nil
	}
	return cursor
}

// maxPage bounds the definitions of one page, in bytes, unless one definition is longer. Clients
// accept messages of 4 MiB and more.
const maxPage = 1 << 20

// encodePage returns a page with the first entries, and their number: at most size, unless size is
// 0 or less, and at most maxPage bytes.
func encodePage(kind mcp.Kind, entries []*Entry, size int, meta mcp.Meta) (page mcp.Raw, count int) {
	if size <= 0 {
		size = len(entries)
	}
	size = min(size, len(entries))
	for bytes := 0; count < size; count++ {
		if bytes += len(entries[count].Definition.JSON()); bytes > maxPage && count > 0 {
			break
		}
	}
	if count == len(entries) {
		return encodeList(kind, entries, "", meta), count
	}
	return encodeList(kind, entries[:count], encodeCursor(entries[count-1].Name), meta), count
}

// pageStart returns the index after the entry that a cursor names. Changes elsewhere in the list do
// not invalidate a cursor.
func pageStart(entries []*Entry, cursor json.RawMessage) (int, error) {
	if cursor == nil {
		return 0, nil
	}
	var text string
	if err := json.Unmarshal(cursor, &text); err == nil {
		if name, err := base64.RawURLEncoding.DecodeString(text); err == nil {
			at := slices.IndexFunc(entries, func(e *Entry) bool { return e.Name == string(name) })
			if at >= 0 {
				return at + 1, nil
			}
		}
	}
	return 0, &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "unknown cursor: list again without a cursor"}
}

func encodeCursor(name string) string { return base64.RawURLEncoding.EncodeToString([]byte(name)) }

// changes delivers changes to watchers.
type changes struct {
	mu       sync.Mutex
	watchers map[*watcher]struct{}
}

type watcher struct {
	principal string
	filter    mcp.SubscriptionFilter
	all       bool // every change, whatever the filter and the principal
	notify    func(mcp.Change)
}

// watch calls notify for each change that matches the filter, and that is for this principal or for
// everyone. notify must not block.
func (c *changes) watch(principal string, filter mcp.SubscriptionFilter, notify func(mcp.Change)) (stop func()) {
	return c.add(&watcher{principal: principal, filter: filter, notify: notify})
}

// watchAll calls notify for every change. notify must not block.
func (c *changes) watchAll(notify func(mcp.Change)) (stop func()) {
	return c.add(&watcher{all: true, notify: notify})
}

func (c *changes) add(w *watcher) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watchers == nil {
		c.watchers = make(map[*watcher]struct{})
	}
	c.watchers[w] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watchers, w)
	}
}

// notify calls the watchers of a change.
func (c *changes) notify(change mcp.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watchers {
		switch {
		case w.all:
			w.notify(change)
		case w.matches(change):
			w.notify(mcp.Change{Kind: change.Kind, URI: change.URI})
		}
	}
}

// notifyMissed calls the watchers of everything, since changes may have been missed.
func (c *changes) notifyMissed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.watchers {
		for _, kind := range []mcp.Kind{mcp.KindTool, mcp.KindPrompt, mcp.KindResource, mcp.KindEvent} {
			if change := listChange(kind); w.all || w.matches(change) {
				w.notify(change)
			}
		}
		for _, uri := range w.filter.ResourceSubscriptions {
			w.notify(mcp.Change{Kind: mcp.KindResource, URI: uri})
		}
	}
}

func (w *watcher) matches(change mcp.Change) bool {
	if change.For != "" && change.For != w.principal {
		return false
	}
	switch {
	case change.URI != "":
		return slices.Contains(w.filter.ResourceSubscriptions, change.URI)
	case change.Kind == mcp.KindTool:
		return w.filter.ToolsListChanged
	case change.Kind == mcp.KindPrompt:
		return w.filter.PromptsListChanged
	case change.Kind == mcp.KindEvent:
		return w.filter.EventsListChanged
	default:
		return w.filter.ResourcesListChanged
	}
}

// Watch calls notify for changes that match the filter until stop is called. agreed is the accepted
// part of the filter: resources that do not exist, or that the caller may not see, are left out.
// call is the subscribe request. An error of a guard rejects it.
func (c core) Watch(ctx context.Context, call *mcp.Call, filter mcp.SubscriptionFilter, notify func(mcp.Change)) (agreed mcp.SubscriptionFilter, stop func(), err error) {
	agreed = filter
	agreed.ResourceSubscriptions = nil
	var stops []func()
	stop = func() {
		for _, stop := range stops {
			stop()
		}
	}
	var watching func()
	if agreed.TaskIDs, watching, err = c.watchTasks(ctx, call.Caller, filter.TaskIDs, notify); err != nil {
		return agreed, nil, c.taskError(ctx, call, err)
	}
	stops = append(stops, watching)
	if len(filter.ResourceSubscriptions) > 0 {
		if err := c.ready(ctx); err != nil {
			stop()
			return agreed, nil, err
		}
	}
	for _, uri := range filter.ResourceSubscriptions {
		ended, err := c.subscribe(ctx, call, uri)
		if mcp.IsResourceNotFound(err) {
			continue
		}
		if err != nil {
			stop()
			return agreed, nil, err
		}
		agreed.ResourceSubscriptions = append(agreed.ResourceSubscriptions, uri)
		stops = append(stops, ended)
	}
	c.watchReplicas(ctx)
	stops = append(stops, c.changes.watch(call.Caller.Principal, agreed, notify))
	return agreed, stop, nil
}

// subscribe starts to report changes of one resource.
func (s *Server) subscribe(ctx context.Context, call *mcp.Call, uri string) (stop func(), err error) {
	entry := s.Catalog().Lookup(mcp.KindResource, uri)
	if entry == nil {
		if entry, err = s.resolveUnlisted(ctx, mcp.KindResource, uri); err != nil {
			return nil, s.notSubscribed(ctx, call, err)
		}
	}
	if entry == nil {
		return nil, mcp.ResourceNotFound(uri)
	}
	one := *call
	one.Resolve(&entry.Target, uri, s.recheckFunc)
	if entry.Subscribe == nil {
		return func() {}, nil
	}
	err = callRecovered(func() (err error) {
		stop, err = entry.Subscribe(ctx, &one)
		return err
	})
	if err != nil {
		return nil, s.notSubscribed(ctx, &one, err)
	}
	return stop, nil
}

// notSubscribed returns the error for the caller. A subscription cannot ask questions.
func (s *Server) notSubscribed(ctx context.Context, call *mcp.Call, err error) error {
	if _, asks := mcp.AsInputRequired(err); asks {
		err = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: "a subscription cannot ask its caller"}
	}
	if _, err = s.convertError(ctx, call, err); err == nil {
		return errors.New("the resource cannot be subscribed to")
	}
	return err
}
