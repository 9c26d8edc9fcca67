package signature_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/leaktest"
	"github.com/dovetail-go/dovetail/internal/webhook"
	"github.com/dovetail-go/dovetail/internal/webhook/signature"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

func secret(t testing.TB, letter string) webhook.Secret {
	t.Helper()
	s, err := webhook.ParseSecret("whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, 32))))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The expected signature is computed here by hand from SEP-3415.
func TestSign(t *testing.T) {
	body := []byte(`{"eventId":"evt_789"}`)
	header := http.Header{}
	at := time.Now()
	if err := signature.Sign(header, []webhook.Secret{secret(t, "a"), secret(t, "b")}, "evt_789", at, body); err != nil {
		t.Fatal(err)
	}
	unix := strconv.FormatInt(at.Unix(), 10)
	var want []string
	for _, letter := range []string{"a", "b"} {
		mac := hmac.New(sha256.New, []byte(strings.Repeat(letter, 32)))
		mac.Write([]byte("evt_789." + unix + "." + string(body)))
		want = append(want, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	if got := header.Get("Webhook-Signature"); got != strings.Join(want, " ") {
		t.Errorf("the signature is %q, want %q", got, want)
	}
	if header.Get("Webhook-Id") != "evt_789" || header.Get("Webhook-Timestamp") != unix {
		t.Errorf("the header is %v", header)
	}
	for _, id := range []string{"", "two words", "a\nb", "ü", strings.Repeat("x", 257)} {
		if err := signature.Sign(http.Header{}, nil, id, at, body); !errors.Is(err, signature.ErrHeader) {
			t.Errorf("id %q: %v", id, err)
		}
	}
}

func TestVerify(t *testing.T) {
	const body = `{"eventId":"evt_789"}`
	for _, test := range []struct {
		name   string
		signed []string      // letters of the secrets
		age    time.Duration // of the signature
		change func(header http.Header)
		body   string
		want   error
	}{
		{"valid", []string{"a"}, 0, nil, body, nil},
		{"the second of two", []string{"b", "a"}, 0, nil, body, nil},
		{"in time", []string{"a"}, 5 * time.Minute, nil, body, nil},
		{"too old", []string{"a"}, 5*time.Minute + time.Second, nil, body, signature.ErrTime},
		{"a little early", []string{"a"}, -5 * time.Minute, nil, body, nil},
		{"too early", []string{"a"}, -5*time.Minute - time.Second, nil, body, signature.ErrTime},
		{"another secret", []string{"b"}, 0, nil, body, signature.ErrSignature},
		{"another body", []string{"a"}, 0, nil, body + " ", signature.ErrSignature},
		{"another id", []string{"a"}, 0, func(h http.Header) { h.Set("Webhook-Id", "evt_790") }, body, signature.ErrSignature},
		{"no id", []string{"a"}, 0, func(h http.Header) { h.Del("Webhook-Id") }, body, signature.ErrHeader},
		{"two ids", []string{"a"}, 0, func(h http.Header) { h.Add("Webhook-Id", "evt_789") }, body, signature.ErrHeader},
		{"no timestamp", []string{"a"}, 0, func(h http.Header) { h.Del("Webhook-Timestamp") }, body, signature.ErrHeader},
		{"timestamp is no number", []string{"a"}, 0, func(h http.Header) { h.Set("Webhook-Timestamp", "now") }, body, signature.ErrHeader},
		{"huge timestamp", []string{"a"}, 0, func(h http.Header) { h.Set("Webhook-Timestamp", strings.Repeat("9", 20)) }, body, signature.ErrHeader},
		{"no signature", []string{"a"}, 0, func(h http.Header) { h.Del("Webhook-Signature") }, body, signature.ErrHeader},
		{"long signature", []string{"a"}, 0, func(h http.Header) {
			h.Set("Webhook-Signature", strings.Repeat("v1,x ", 1000)+h.Get("Webhook-Signature"))
		}, body, signature.ErrHeader},
		{"another version", []string{"a"}, 0, func(h http.Header) {
			h.Set("Webhook-Signature", strings.Replace(h.Get("Webhook-Signature"), "v1,", "v1a,", 1))
		}, body, signature.ErrSignature},
		{"versions beside it", []string{"a"}, 0, func(h http.Header) {
			h.Set("Webhook-Signature", "v1a,abc v2 , "+h.Get("Webhook-Signature"))
		}, body, nil},
		{"beginning", []string{"a"}, 0, func(h http.Header) { h.Set("Webhook-Signature", h.Get("Webhook-Signature")[:10]) }, body, signature.ErrSignature},
		{"empty signature", []string{"a"}, 0, func(h http.Header) { h.Set("Webhook-Signature", "v1,") }, body, signature.ErrSignature},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var secrets []webhook.Secret
				for _, letter := range test.signed {
					secrets = append(secrets, secret(t, letter))
				}
				header := http.Header{}
				if err := signature.Sign(header, secrets, "evt_789", time.Now().Add(-test.age), []byte(body)); err != nil {
					t.Fatal(err)
				}
				if test.change != nil {
					test.change(header)
				}
				if err := signature.Verify(header, secret(t, "a"), []byte(test.body)); !errors.Is(err, test.want) || test.want == nil && err != nil {
					t.Errorf("Verify returns %v, want %v", err, test.want)
				}
			})
		})
	}
}

// The zero value of a secret has an empty key and verifies nothing.
func TestNoSecret(t *testing.T) {
	header := http.Header{}
	if err := signature.Sign(header, []webhook.Secret{{}}, "evt_1", time.Now(), nil); err != nil {
		t.Fatal(err)
	}
	if err := signature.Verify(header, webhook.Secret{}, nil); !errors.Is(err, signature.ErrSignature) {
		t.Errorf("Verify returns %v", err)
	}
}

func FuzzVerify(f *testing.F) {
	f.Add("evt_1", "1771516800", "v1,abc v1a,def", "{}")
	f.Add("", "-1", "v1", "")
	f.Add("evt_1", "9223372036854775807", ",,, ,", "{}")
	f.Fuzz(func(t *testing.T, id, timestamp, signatures, body string) {
		header := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {timestamp}, "Webhook-Signature": {signatures}}
		if err := signature.Verify(header, secret(t, "a"), []byte(body)); err == nil {
			t.Errorf("%v with body %q is valid", header, body)
		}
		valid := http.Header{}
		if err := signature.Sign(valid, []webhook.Secret{secret(t, "a")}, id, time.Now(), []byte(body)); err != nil {
			return
		}
		if err := signature.Verify(valid, secret(t, "a"), []byte(body)); err != nil {
			t.Errorf("the signature is not valid: %v", err)
		}
	})
}
