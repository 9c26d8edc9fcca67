package uritemplate_test

import (
	"testing"

	"github.com/dovetail-go/dovetail/internal/uritemplate"
)

func TestEquivalent(t *testing.T) {
	for uri, want := range map[string]string{
		"":                             "",
		"file:///secret":               "file:///secret",
		"FILE:///%73ecret":             "file:///secret",
		"App://Shop.Example/A%2fb":     "app://shop.example/A%2Fb",
		"app://shop/a%3f%c3%a9%2F":     "app://shop/a%3Fé%2F",
		"app://shop/%41?X=%7e#%41":     "app://shop/A?X=~#A",
		"App://U@Host/a":               "app://U@Host/a",
		"App://H%2fOST/a":              "app://H%2FOST/a",
		"%75I://a/b":                   "ui://a/b",
		"App:%00%7F":                   "app:%00%7F",
		"APP://Shop/%zz":               "APP://Shop/%zz", // malformed
		"APP://Shop/%ff":               "APP://Shop/%ff",
		"APP://Shop/\xff":              "APP://Shop/\xff",
		"no scheme/%41":                "no scheme/A",
		"app://shop/a%25%32%35":        "app://shop/a%2525",
		"app://shop/{name}/%7Bname%7D": "app://shop/{name}/%7Bname%7D",
	} {
		got := uritemplate.Equivalent(uri)
		if got != want {
			t.Errorf("the canonical spelling of %q is %q, want %q", uri, got, want)
		}
		if again := uritemplate.Equivalent(got); again != got {
			t.Errorf("the canonical spelling of %q is %q", got, again)
		}
	}
}
