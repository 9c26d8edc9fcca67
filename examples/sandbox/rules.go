package main

import (
	"cmp"
	"fmt"
	"os"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/policy"
	"github.com/dovetail-go/dovetail/server"
)

// own is what rules call the sandbox itself, whose tools can be believed.
const own = "sandbox"

// ownTools offers the sandbox's own tools as those of the server own.
type ownTools struct{ server.Provider }

func (p ownTools) Catalog() *server.Catalog {
	tools := p.Provider.Catalog()
	return tools.Memo(ownTools{}, func() any {
		return tools.Map(func(e *server.Entry) *server.Entry {
			named := *e
			named.Origin = mcp.Origin{Server: own, Name: cmp.Or(e.Origin.Name, e.Name), Trusted: true}
			return &named
		})
	}).(*server.Catalog)
}

// surround puts the policy of a file around everything. What it says to ask about, the
// person behind the caller decides.
func (s *sandbox) surround(opts *server.Options) error {
	if s.policy == "" {
		return nil
	}
	data, err := os.ReadFile(s.policy)
	if err != nil {
		return err
	}
	parsed, err := policy.Parse(data)
	if err != nil {
		return fmt.Errorf("%s: %w", s.policy, err)
	}
	compiled, err := policy.Compile(parsed)
	if err != nil {
		return fmt.Errorf("%s: %w", s.policy, err)
	}
	guard := approval.Guard(compiled, approval.ByCaller(), &approval.Options{Logger: s.logger})
	opts.Guards = []mcp.Guard{guard}
	return nil
}
