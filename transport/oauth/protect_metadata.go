package oauth

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// published is the metadata of a protected resource. RFC 9728, section 2.
type published struct {
	url   string    // as clients have it
	paths [2]string // where it is served: for the resource, and for those who look at the root only
	body  []byte
}

func publish(resource *url.URL, o *ProtectOptions) (*published, error) {
	said := struct {
		Resource             string   `json:"resource"`
		Name                 string   `json:"resource_name,omitempty"`
		Documentation        string   `json:"resource_documentation,omitempty"`
		AuthorizationServers []string `json:"authorization_servers"`
		Scopes               []string `json:"scopes_supported,omitempty"`
		Methods              []string `json:"bearer_methods_supported"`
		ProofAlgorithms      []string `json:"dpop_signing_alg_values_supported,omitempty"`
		ProofsRequired       bool     `json:"dpop_bound_access_tokens_required,omitempty"`
	}{
		o.Resource, o.Name, o.Documentation, o.AuthorizationServers, o.ScopesSupported, []string{"header"}, nil, false,
	}
	if o.DPoP != nil {
		said.ProofAlgorithms = strings.Fields(proofAlgorithmNames)
		said.ProofsRequired = o.DPoP.Required
	}
	body, err := json.Marshal(said)
	if err != nil {
		return nil, err
	}
	root := "/.well-known/" + resourceDocument
	return &published{
		url:   wellKnown(resource, resourceDocument),
		paths: [2]string{root, root + strings.TrimSuffix(resource.Path, "/")},
		body:  body,
	}, nil
}

// isAt tells the paths of the document.
func (m *published) isAt(path string) bool {
	return path == m.paths[0] || path == m.paths[1]
}

// serve answers a request for the document. Any page may read it, as RFC 9728, section
// 3.1, has it; there is nothing in it that depends on who asks.
func (m *published) serve(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", "*")
	header.Set("Allow", "GET, HEAD, OPTIONS")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		header.Set("Content-Type", "application/json")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "public, max-age="+metadataAge)
		header.Set("Content-Length", strconv.Itoa(len(m.body)))
		_, _ = w.Write(m.body) // net/http sends none for HEAD; a client that has gone misses it
	case http.MethodOptions:
		header.Set("Access-Control-Allow-Methods", "GET, HEAD")
		header.Set("Access-Control-Allow-Headers", "MCP-Protocol-Version")
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}
