package server

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/uritemplate"
	"github.com/dovetail-go/dovetail/mcp"
)

// A composite is the server's registry with what is mounted beside it.
type composite struct {
	server *Server
	own    *registry

	mu      sync.Mutex
	mounts  atomic.Pointer[[]*mount]
	current atomic.Pointer[merged]
}

func (c *composite) mounted() []*mount {
	if mounts := c.mounts.Load(); mounts != nil {
		return *mounts
	}
	return nil
}

// add takes one more mount in, unless something of it is there already.
func (c *composite) add(m *mount) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	mounts := append(slices.Clone(c.mounted()), m)
	if together := merge(c.own, mounts); len(together.refused) > 0 {
		return together.refused[0]
	}
	c.mounts.Store(&mounts)
	return nil
}

// merged is what all parts offer, as they were between two changes.
type merged struct {
	from      []*Catalogue
	catalogue Catalogue
	owners    map[entryKey]owner
	templates []ownedTemplate
	refused   []error
}

// An owner is who offers something, under its own name.
type owner struct {
	mount *mount // nil: the registry
	name  string
}

type ownedTemplate struct {
	owner
	matcher *uritemplate.Matcher
}

// now returns the parts merged as they are now.
func (c *composite) now() *merged {
	mounts := c.mounted()
	if m := c.current.Load(); m != nil && m.isOf(c.own, mounts) {
		return m
	}
	m := merge(c.own, mounts)
	c.current.Store(m)
	for _, err := range m.refused {
		c.server.options.Logger.Warn("something mounted is not offered", "error", err)
	}
	return m
}

func (m *merged) isOf(own *registry, mounts []*mount) bool {
	if len(m.from) != 1+len(mounts) || m.from[0] != own.Catalogue() {
		return false
	}
	for i, mount := range mounts {
		if m.from[i+1] != mount.provider.Catalogue() {
			return false
		}
	}
	return true
}

func merge(own *registry, mounts []*mount) *merged {
	m := &merged{owners: make(map[entryKey]owner)}
	m.take(nil, own.Catalogue())
	for _, mount := range mounts {
		m.take(mount, mount.provider.Catalogue())
	}
	return m
}

// take adds what one part offers. Of two with one name the first stays.
func (m *merged) take(from *mount, offered *Catalogue) {
	m.from = append(m.from, offered)
	m.catalogue.Tools = m.takeNamed(m.catalogue.Tools, toolKind, from, offered.Tools)
	m.catalogue.Prompts = m.takeNamed(m.catalogue.Prompts, promptKind, from, offered.Prompts)
	m.catalogue.Resources = m.takeListed(m.catalogue.Resources, resourceKind, from, offered.Resources)
	m.catalogue.Templates = m.takeListed(m.catalogue.Templates, templateKind, from, offered.Templates)
	m.catalogue.Completes = m.catalogue.Completes || offered.Completes
}

func (m *merged) takeNamed(list []Listed, kind kind, from *mount, offered []Listed) []Listed {
	if from == nil || from.prefix == "" {
		return m.takeListed(list, kind, from, offered)
	}
	for _, l := range offered {
		name := from.prefix + l.Name
		renamed, err := jsonscan.Splice(nil, l.JSON, jsonscan.Edit{Name: "name", Value: jsonscan.AppendString(nil, name)})
		if err == nil {
			err = checkName(kind, name)
		}
		if err != nil {
			m.refused = append(m.refused, err)
			continue
		}
		if m.own(entryKey{kind, name}, owner{from, l.Name}) {
			list = append(list, Listed{name, renamed})
		}
	}
	return list
}

func (m *merged) takeListed(list []Listed, kind kind, from *mount, offered []Listed) []Listed {
	for _, l := range offered {
		of := owner{from, l.Name}
		if !m.own(entryKey{kind, l.Name}, of) {
			continue
		}
		list = append(list, l)
		if kind == templateKind {
			m.addTemplate(of)
		}
	}
	return list
}

func (m *merged) own(key entryKey, of owner) bool {
	if _, taken := m.owners[key]; taken {
		m.refused = append(m.refused, &CollisionError{Kind: key.kind.String(), Name: key.name})
		return false
	}
	m.owners[key] = of
	return true
}

// addTemplate remembers how to match a template. One that cannot be matched here is
// listed, and its resources are read when they are listed too.
func (m *merged) addTemplate(of owner) {
	parsed, err := uritemplate.Parse(of.name)
	if err != nil {
		return
	}
	if matcher, err := parsed.Matcher(); err == nil {
		m.templates = append(m.templates, ownedTemplate{of, matcher})
	}
}

// Catalogue is what all parts offer.
func (c *composite) Catalogue() *Catalogue {
	if len(c.mounted()) == 0 {
		return c.own.Catalogue()
	}
	return &c.now().catalogue
}

// Call has the part answer that offers what is called.
func (c *composite) Call(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	if len(c.mounted()) == 0 {
		return c.own.Call(ctx, call)
	}
	switch call.Method() {
	case mcp.MethodToolsCall:
		return c.callNamed(ctx, toolKind, call, "name")
	case mcp.MethodPromptsGet:
		return c.callNamed(ctx, promptKind, call, "name")
	case mcp.MethodResourcesRead:
		return c.read(ctx, call)
	case mcp.MethodComplete:
		return c.complete(ctx, call)
	}
	return c.own.Call(ctx, call)
}

// callNamed passes a call on to who has what it names, under the name that it has
// there.
func (c *composite) callNamed(ctx context.Context, kind kind, call *mcp.Call, path ...string) (mcp.Result, error) {
	name, err := stringMember(call, path...)
	if err != nil {
		return nil, err
	}
	key := entryKey{kind, name}
	of := c.now().owners[key]
	if of.mount == nil {
		return c.own.Call(ctx, call)
	}
	if of.mount.prefix != "" {
		if call, err = renamed(call, of.name, path); err != nil {
			return nil, err
		}
	}
	return c.pass(ctx, key, of.mount, call)
}

// renamed is a call with another name in it.
func renamed(call *mcp.Call, name string, path []string) (*mcp.Call, error) {
	value := json.RawMessage(jsonscan.AppendString(nil, name))
	if len(path) == 2 {
		var err error
		if value, err = jsonscan.Splice(nil, call.Member(path[0]), jsonscan.Edit{Name: path[1], Value: value}); err != nil {
			return nil, err
		}
	}
	params, err := jsonscan.Splice(make([]byte, 0, len(call.Params())), call.Params(), jsonscan.Edit{Name: path[0], Value: value})
	if err != nil {
		return nil, err
	}
	return call.WithParams(params)
}

// pass has a mounted provider answer, within what stands around this server.
func (c *composite) pass(ctx context.Context, key entryKey, m *mount, call *mcp.Call) (mcp.Result, error) {
	around := &c.own.around
	if len(around.Guards)+len(around.Mappers)+len(around.Inner) == 0 {
		return m.provider.Call(ctx, call)
	}
	a := attended{of: key, around: *around}
	return a.attend(ctx, c.server, call, func(ctx context.Context, r *Request) (mcp.Result, error) {
		return inner(ctx, r, struct{}{}, func(ctx context.Context, r *Request, _ struct{}) (mcp.Result, error) {
			return m.provider.Call(ctx, r.call)
		})
	})
}

// read finds who has a resource: the one with that URI, else the first template that
// matches it.
func (c *composite) read(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	uri, err := stringMember(call, "uri")
	if err != nil {
		return nil, err
	}
	now := c.now()
	if of, ok := now.owners[entryKey{resourceKind, uri}]; ok {
		return c.readFrom(ctx, of.mount, entryKey{resourceKind, uri}, call)
	}
	for _, template := range now.templates {
		if _, ok := template.matcher.Match(uri); ok {
			return c.readFrom(ctx, template.mount, entryKey{templateKind, template.name}, call)
		}
	}
	return nil, mcp.ResourceNotFound(uri)
}

func (c *composite) readFrom(ctx context.Context, m *mount, key entryKey, call *mcp.Call) (mcp.Result, error) {
	if m == nil {
		return c.own.Call(ctx, call)
	}
	return c.pass(ctx, key, m, call)
}

func (c *composite) complete(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	if kind, _ := stringMember(call, "ref", "type"); kind == "ref/prompt" {
		return c.callNamed(ctx, promptKind, call, "ref", "name")
	}
	uri, err := stringMember(call, "ref", "uri")
	if err != nil {
		return c.own.Call(ctx, call) // it says what is expected
	}
	key := entryKey{templateKind, uri}
	return c.readFrom(ctx, c.now().owners[key].mount, key, call)
}

// A concealer is a provider that does not show everything to everyone.
type concealer interface {
	hides() bool
	isVisible(ctx context.Context, key entryKey, list *mcp.Call) bool
}

func (c *composite) hides() bool {
	return c.own.hides() || slices.ContainsFunc(c.mounted(), func(m *mount) bool {
		hider, ok := m.provider.(concealer)
		return ok && hider.hides()
	})
}

// isVisible says whether the caller of a list may see an entry of it.
func (c *composite) isVisible(ctx context.Context, key entryKey, list *mcp.Call) bool {
	if len(c.mounted()) == 0 {
		return c.own.isVisible(ctx, key, list)
	}
	of := c.now().owners[key]
	if of.mount == nil {
		return c.own.isVisible(ctx, key, list)
	}
	a := attended{of: key, around: c.own.around}
	if !a.isVisible(ctx, c.server, list) {
		return false
	}
	hider, ok := of.mount.provider.(concealer)
	return !ok || hider.isVisible(ctx, entryKey{key.kind, of.name}, list)
}

// subscribe tells the part that has a resource that it is watched.
func (c *composite) subscribe(ctx context.Context, uri string) (unsubscribe func(), err error) {
	now := c.now()
	of, ok := now.owners[entryKey{resourceKind, uri}]
	for i := 0; !ok && i < len(now.templates); i++ {
		if _, ok = now.templates[i].matcher.Match(uri); ok {
			of = now.templates[i].owner
		}
	}
	if of.mount == nil {
		return func() {}, nil
	}
	if of.mount.child != nil {
		return of.mount.child.provider.subscribe(ctx, uri)
	}
	if s, ok := of.mount.provider.(Subscriber); ok {
		return s.Subscribe(ctx, uri)
	}
	return func() {}, nil
}
