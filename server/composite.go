package server

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
)

// A composite is the server's registry with what is mounted beside it.
type composite struct {
	server *Server
	own    *registry

	mu      sync.Mutex // of those who change what follows
	mounts  atomic.Pointer[[]*mount]
	places  atomic.Pointer[[]place]
	current atomic.Pointer[merged]
}

func (c *composite) mounted() []*mount {
	if mounts := c.mounts.Load(); mounts != nil {
		return *mounts
	}
	return nil
}

// now returns the parts merged as they are now.
func (c *composite) now() *merged {
	if m := c.current.Load(); m.isOf(c.own, c.mounted()) {
		return m
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before, mounts := c.current.Load(), c.mounted()
	if before.isOf(c.own, mounts) {
		return before
	}
	m := merge(before, c.own, mounts)
	c.current.Store(m)
	for _, refused := range m.refused {
		c.server.options.Logger.Warn("something mounted is not offered", "error", refused.err)
	}
	return m
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
		return c.callNamed(ctx, toolKind, call)
	case mcp.MethodPromptsGet:
		return c.callNamed(ctx, promptKind, call)
	case mcp.MethodResourcesRead:
		return c.read(ctx, call)
	case mcp.MethodComplete:
		return c.complete(ctx, call)
	}
	return c.own.Call(ctx, call)
}

func (c *composite) callNamed(ctx context.Context, kind kind, call *mcp.Call) (mcp.Result, error) {
	return c.callOwner(ctx, c.now().owner(kind, call.Member("name")), call)
}

// callOwner has the registry answer what nobody owns: it says what is wrong.
func (c *composite) callOwner(ctx context.Context, of *owner, call *mcp.Call) (mcp.Result, error) {
	if of == nil || of.mount == nil {
		return c.own.Call(ctx, call)
	}
	return c.pass(ctx, of.key, of, call)
}

// read finds who has a resource: the one with that URI, else the first template that
// matches it.
func (c *composite) read(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	uri, err := stringMember(call, "uri")
	if err != nil {
		return nil, err
	}
	return c.callOwner(ctx, c.now().resource(uri), call)
}

// complete passes a call on to who has the prompt or template that it is about.
func (c *composite) complete(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	of := c.now().owner(templateKind, call.Member("ref", "uri"))
	if about, _ := stringMember(call, "ref", "type"); about == "ref/prompt" {
		of = c.now().owner(promptKind, call.Member("ref", "name"))
	}
	if of == nil || of.mount == nil {
		return c.own.Call(ctx, call)
	}
	argument, err := stringMember(call, "argument", "name")
	if err != nil {
		return nil, err
	}
	if !c.isVisible(ctx, of.key, call) {
		return nil, noArgument(argument, of.key.name)
	}
	return c.pass(ctx, of.key.completion(argument), of, call)
}

// pass has a mounted provider answer, within what stands around this server. The key
// says what is called; of a completion it is not that of its owner.
func (c *composite) pass(ctx context.Context, key entryKey, of *owner, call *mcp.Call) (result mcp.Result, err error) {
	around := &c.own.around
	if len(around.Guards)+len(around.Mappers)+len(around.Inner) == 0 {
		result, err = of.call(ctx, call)
	} else {
		result, err = c.passWithin(ctx, key, of, call)
	}
	if d, denied := errors.AsType[*denial](err); denied && d.hides && of.mount.child != nil {
		return nil, &denial{unknown(key, call), true} // under the name that it has here
	}
	return result, err
}

func (c *composite) passWithin(ctx context.Context, key entryKey, of *owner, call *mcp.Call) (mcp.Result, error) {
	var failure error // of the provider, not of a function: no caller is told
	a := c.attended(key)
	result, err := a.attend(ctx, c.server, call, func(ctx context.Context, r *Request) (mcp.Result, error) {
		return inner(ctx, r, call, func(ctx context.Context, _ *Request, call *mcp.Call) (mcp.Result, error) {
			result, own, err := revealing(ctx, func(ctx context.Context) (mcp.Result, error) { return of.call(ctx, call) })
			if !own {
				failure = err
			}
			return result, err
		})
	})
	if err == nil || errors.Is(err, failure) {
		return result, err
	}
	return a.tell(ctx, err)
}

// attended is what stands around this server, around something mounted.
func (c *composite) attended(key entryKey) *attended {
	a := &attended{of: key, around: c.own.around}
	a.around.Metadata = c.metadata(key)
	return a
}

// metadata is that of an entry, wherever it is.
func (c *composite) metadata(key entryKey) map[string]any {
	if entry := c.own.snapshot().entries[key]; entry != nil {
		return entry.metadata()
	}
	metadata := c.own.around.Metadata
	if len(c.mounted()) == 0 {
		return metadata
	}
	if of := c.now().owners[key.about()]; of != nil && of.mount != nil && of.mount.child != nil {
		inside, _ := of.mount.inside(key)
		metadata = overlaid(metadata, of.mount.child.provider.metadata(inside))
	}
	return metadata
}

// hides says whether anything is hidden from anybody.
func (c *composite) hides() bool {
	mounts := c.mounted()
	return c.own.hides() || len(mounts) > 0 && c.own.around.hides() ||
		slices.ContainsFunc(mounts, func(m *mount) bool { return m.child != nil && m.child.provider.hides() })
}

// isVisible says whether a caller may see an entry.
func (c *composite) isVisible(ctx context.Context, key entryKey, call *mcp.Call) bool {
	if len(c.mounted()) == 0 {
		return c.own.isVisible(ctx, key, call)
	}
	of := c.now().owners[key]
	if of == nil || of.mount == nil {
		return c.own.isVisible(ctx, key, call)
	}
	if c.own.around.hides() && !c.attended(key).isVisible(ctx, c.server, call) {
		return false
	}
	child := of.mount.child
	return child == nil || child.provider.isVisible(ctx, entryKey{key.kind, of.name}, call)
}

// subscribe tells the part that has a resource that it is watched.
func (c *composite) subscribe(ctx context.Context, uri string) (unsubscribe func(), err error) {
	of := c.now().resource(uri)
	if of == nil || of.mount == nil {
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

// call has the owner answer a call, under the name that it knows.
func (o *owner) call(ctx context.Context, call *mcp.Call) (mcp.Result, error) {
	if o.quoted != nil {
		var err error
		if call, err = o.renamed(call); err != nil {
			return nil, err
		}
	}
	return o.mount.provider.Call(ctx, call)
}

// renamed is the call with the owner's name in it; all other bytes are as they were.
func (o *owner) renamed(call *mcp.Call) (*mcp.Call, error) {
	edit := jsonscan.Edit{Name: "name", Value: o.quoted}
	if call.Method() == mcp.MethodComplete {
		ref, err := jsonscan.Splice(nil, call.Member("ref"), edit)
		if err != nil {
			return nil, err
		}
		edit = jsonscan.Edit{Name: "ref", Value: ref}
	}
	params := call.Params()
	params, err := jsonscan.Splice(make(json.RawMessage, 0, len(params)), params, edit)
	if err != nil {
		return nil, err
	}
	return call.WithParams(params)
}
