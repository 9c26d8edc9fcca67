package webhook_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/internal/webhook"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func encoded(n int) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", n)))
}

func TestParseSecret(t *testing.T) {
	for text, valid := range map[string]bool{
		"whsec_" + encoded(24):                           true,
		"whsec_" + encoded(25):                           true,
		"whsec_" + encoded(64):                           true,
		"whsec_" + encoded(23):                           false,
		"whsec_" + encoded(65):                           false,
		"whsec_" + encoded(32)[:10] + "\n" + encoded(32): false,
		"whsec_" + strings.TrimRight(encoded(25), "="):   false,
		"whsec_" + encoded(25)[:33] + "t==":              false, // bits of the padding are set
		"WHSEC_" + encoded(24):                           false,
		encoded(24):                                      false,
		"whsec_" + strings.Repeat("_", 32):               false,
		"whsec_":                                         false,
		"":                                               false,
		"whsec_" + strings.Repeat("A", 1<<20):            false,
	} {
		secret, err := webhook.ParseSecret(text)
		switch {
		case valid && err != nil:
			t.Errorf("%.80q: %v", text, err)
		case !valid && !errors.Is(err, webhook.ErrSecret):
			t.Errorf("%.80q is a secret", text)
		case valid && secret.Text() != text:
			t.Errorf("%q became %q", text, secret.Text())
		}
	}
}

func TestNewSecret(t *testing.T) {
	a, b := webhook.NewSecret(), webhook.NewSecret()
	if a.Text() == b.Text() {
		t.Error("two secrets are equal")
	}
	if parsed, err := webhook.ParseSecret(a.Text()); err != nil || parsed.Text() != a.Text() {
		t.Errorf("a new secret is parsed as %v, %v", parsed, err)
	}
	if shown := fmt.Sprintf("%v %+v %#v %s", a, a, a, a); strings.Contains(shown, a.Text()[6:]) || strings.Contains(shown, "[") {
		t.Errorf("formatting shows %s", shown)
	}
}

func FuzzParseSecret(f *testing.F) {
	f.Add("whsec_" + encoded(24))
	f.Add("whsec_" + encoded(63))
	f.Add("whsec_\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		secret, err := webhook.ParseSecret(text)
		if err != nil {
			return
		}
		if n := len(secret.Bytes()); n < webhook.MinSecret || n > webhook.MaxSecret || secret.Text() != text {
			t.Errorf("%q is a secret of %d bytes with the text %q", text, n, secret.Text())
		}
	})
}
