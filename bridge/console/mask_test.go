package console

import (
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/peertext"
)

func TestMaskSecrets(t *testing.T) {
	for text, want := range map[string]string{
		`{"apiKey":"12345678901","path":"/a"}`:               `{"apiKey":"‹secret · 13 bytes›","path":"/a"}`,
		`{ "API-Key" : 17 , "n":9007199254740993}`:           `{ "API-Key" : "‹secret · 2 bytes›" , "n":9007199254740993}`,
		`{"a":[{"Password":{"x":["}"]}}],"b":1.10}`:          `{"a":[{"Password":"‹secret · 11 bytes›"}],"b":1.10}`,
		`{"pass\u0077ord":"x"}`:                              `{"pass\u0077ord":"‹secret · 3 bytes›"}`,
		`{"text":"{\"token\":\"abc\",\"n\":1}"}`:             `{"text":"{\"token\":\"‹secret · 5 bytes›\",\"n\":1}"}`,
		`{"text":"the token: abc"}`:                          `{"text":"the token: abc"}`,
		`{"progressToken":1,"nextPageToken":"a","tokens":2}`: `{"progressToken":1,"nextPageToken":"a","tokens":2}`,
		`{"secret":null,"token":""}`:                         `{"secret":null,"token":""}`,
		`{"client_secret":"cut at the en`:                    `{"client_secret":"‹secret · 14 bytes›"`,
		`{"authorization`:                                    `{"authorization`,
		`{"secret":`:                                         `{"secret":`,
		``:                                                   ``,
	} {
		if got, _ := maskSecrets(text, false); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	if got, n := maskSecrets(`of a text","token":"abc"}`, true); got != `of a text","token":"‹secret · 5 bytes›"}` || n != 1 {
		t.Errorf("an end that begins within a string: got %s, %d", got, n)
	}
}

// FuzzMaskSecrets: nothing but values of members with the names of secrets is changed, and no text is too odd.
func FuzzMaskSecrets(f *testing.F) {
	f.Add(`{"apiKey":"12345678901","path":"/a"}`, false)
	f.Add(`\"token":{`, true)
	f.Fuzz(func(t *testing.T, text string, inString bool) {
		masked, n := maskSecrets(text, inString)
		if n == 0 && masked != text {
			t.Errorf("%q became %q", text, masked)
		}
	})
}

// TestLongBodies: the beginning and the end of a text are kept, and no part of a secret at the cuts.
func TestLongBodies(t *testing.T) {
	const secret = "a-secret-of-the-configuration"
	redactor := peertext.NewRedactor(secret)
	for at := maxBody - maxEnd - len(secret) - 1; at <= maxBody-maxEnd+1; at++ {
		text := strings.Repeat("x", at) + secret + strings.Repeat("y", maxBody)
		b := newBody([]byte(text), redactor)
		if strings.Contains(b.text, secret[:8]) || !strings.HasPrefix(text, b.text[:at-1]) || b.kept() > maxBody {
			t.Fatalf("at %d, %d bytes are kept, and the first part ends with %q", at, b.kept(), b.text[len(b.text)-40:])
		}
	}
	for at := range len(secret) + 2 {
		text := strings.Repeat("x", maxBody) + secret + strings.Repeat("y", maxEnd-at)
		b := newBody([]byte(text), redactor)
		if strings.Contains(b.end, secret[len(secret)-8:]) || b.kept() > maxBody || b.size != len(text) || b.digest != digestOf(text) {
			t.Fatalf("with %d bytes before the end, the end begins with %q", at, b.end[:40])
		}
	}
}
