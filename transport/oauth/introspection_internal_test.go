package oauth

import (
	"testing"
	"time"
)

// Results are cached until they expire. Invalid tokens evict no valid ones.
func TestIntrospectionCache(t *testing.T) {
	verifier, err := NewIntrospection(&IntrospectionOptions{
		Issuer: "https://login.example.com", Endpoint: "https://login.example.com/introspect", CacheTime: time.Minute,
		Client: Registration{ClientID: "s", Secret: "x"},
	})
	if err != nil {
		t.Fatal(err)
	}
	v := verifier.(*introspection)
	now := time.Now()
	key := func(i int) tokenKey { return tokenKey{byte(i), byte(i >> 8), byte(i >> 16)} }
	wantCached := func(i int, after time.Duration, want bool) {
		t.Helper()
		if _, ok := v.lookUp(key(i), now.Add(after)); ok != want {
			t.Errorf("token %d after %v: cached %t", i, after, ok)
		}
	}
	v.cache(key(1), &Grant{}, nil, now)
	v.cache(key(2), &Grant{Expires: now.Add(time.Second)}, nil, now)
	v.cache(key(3), nil, &InvalidTokenError{}, now)
	wantCached(1, time.Minute-1, true)
	wantCached(1, time.Minute, false)
	wantCached(2, time.Second-1, true)
	wantCached(2, time.Second, false)
	wantCached(3, invalidTime-1, true)
	wantCached(3, invalidTime, false)
	for i := range maxInvalid {
		v.cache(key(10+i), nil, &InvalidTokenError{}, now)
	}
	wantCached(3, 0, false)
	wantCached(1, 0, true)
	for i := range maxCached {
		v.cache(key(10_000+i), &Grant{}, nil, now)
	}
	wantCached(1, 0, false)
	if v.valid.Len() != maxCached || v.invalid.Len() != maxInvalid {
		t.Errorf("%d valid and %d invalid tokens are cached", v.valid.Len(), v.invalid.Len())
	}
}
