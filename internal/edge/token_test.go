package edge_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/edge"
)

func TestToken(t *testing.T) {
	const token = "abcdefghijklmnop"
	long := strings.Repeat("a", 4097)
	for name, test := range map[string]struct {
		header http.Header
		want   string
	}{
		"none":              {nil, ""},
		"bearer":            {http.Header{"Authorization": {"Bearer " + token}}, token},
		"any case":          {http.Header{"Authorization": {"bEARER  " + token + " "}}, token},
		"another scheme":    {http.Header{"Authorization": {"Basic " + token}}, ""},
		"two":               {http.Header{"Authorization": {"Bearer " + token, "Bearer " + token}}, ""},
		"long":              {http.Header{"Authorization": {"Bearer " + long}}, ""},
		"subprotocol":       {http.Header{"Upgrade": {"WebSocket"}, "Sec-Websocket-Protocol": {"a, dovetail.token." + token}}, token},
		"second line":       {http.Header{"Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {"a", "dovetail.token." + token}}, token},
		"no WebSocket":      {http.Header{"Sec-Websocket-Protocol": {"dovetail.token." + token}}, ""},
		"header before":     {http.Header{"Authorization": {"Basic x"}, "Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {"dovetail.token." + token}}, ""},
		"long, subprotocol": {http.Header{"Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {"dovetail.token." + long}}, ""},
	} {
		r, err := http.NewRequest(http.MethodGet, "http://localhost/?token="+token+"&access_token="+token, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = test.header
		if got := edge.Token(r); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestIsToken(t *testing.T) {
	for text, want := range map[string]bool{
		"0123456789abcdef": true, "ABCDEFGHIJ-._~xyz": true, "0123456789abcde": false,
		"0123456789abcde ": false, "0123456789abcde,": false, "0123456789abcdeé": false, "0123456789abcd\n\n": false, "": false,
		strings.Repeat("a", 4096): true, strings.Repeat("a", 4097): false,
	} {
		if edge.IsToken(text) != want {
			t.Errorf("%.40q: %t", text, !want)
		}
	}
}
