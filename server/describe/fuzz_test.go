package describe

import "testing"

func FuzzParseCatalog(f *testing.F) {
	f.Add([]byte(`{"specVersion":"1.0","entries":[{"identifier":"urn:air:a:mcp:b","type":"application/mcp-server-card+json","url":"https://a"}]}`))
	f.Add([]byte(`{"specVersion":"1.1","entries":[{"mediaType":"application/mcp-server-card+json","data":{"a":[]}},{"type":"x"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := parseCatalog(text)
		if err != nil {
			return
		}
		for _, entry := range entries {
			if entry.Type != cardType && entry.MediaType != cardType {
				t.Errorf("%s: an entry of another type: %+v", text, entry)
			}
		}
	})
}
