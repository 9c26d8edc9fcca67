package era

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/mcp"
)

// Each member of an entry is in the first version of the protocol, or has the version that it came with.
func TestMembersHaveVersions(t *testing.T) {
	for method, first := range map[string]struct {
		entry   any
		members []string // of 2024-11-05
	}{
		mcp.MethodToolsList:             {mcp.Tool{}, []string{"name", "description", "inputSchema"}},
		mcp.MethodPromptsList:           {mcp.Prompt{}, []string{"name", "description", "arguments"}},
		mcp.MethodResourcesList:         {mcp.Resource{}, []string{"uri", "name", "description", "mimeType", "size", "annotations"}},
		mcp.MethodResourceTemplatesList: {mcp.ResourceTemplate{}, []string{"uriTemplate", "name", "description", "mimeType", "annotations"}},
	} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(first.entry)) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			isVersioned := slices.ContainsFunc(entryMembers[:], func(m entryMember) bool {
				return m.name == name && (m.method == "" || m.method == method)
			})
			if name != "" && isVersioned == slices.Contains(first.members, name) {
				t.Errorf("%s: the member %q of entries is in 2024-11-05 and in entryMembers, or in neither", method, name)
			}
		}
	}
}
