package client

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
)

// TestCacheIsBounded checks that long results and long keys stay within the bound.
func TestCacheIsBounded(t *testing.T) {
	const entries, size = 40, 1 << 20
	long := strings.Repeat("x", size)
	for name, entry := range map[string]func(i int) (cacheKey, string){
		"results": func(i int) (cacheKey, string) { return cacheKey{mcp.MethodResourcesRead, strconv.Itoa(i)}, long },
		"cursors": func(i int) (cacheKey, string) { return cacheKey{mcp.MethodToolsList, strconv.Itoa(i) + long}, "{}" },
	} {
		t.Run(name, func(t *testing.T) {
			var c cache
			held := func() (n int) {
				for i := range entries {
					key, _ := entry(i)
					if _, ok := c.get(key); ok {
						n++
					}
				}
				return n
			}
			for range 2 { // the second time in place of the first
				for i := range entries {
					key, result := entry(i)
					c.put(key, []byte(result), time.Hour, c.generation())
					if _, ok := c.get(key); !ok {
						t.Fatalf("entry %d, the newest, is not there", i)
					}
				}
				if n := held(); n != maxCached/size-1 {
					t.Errorf("%d entries of a little over 1 MiB are held, want %d", n, maxCached/size-1)
				}
			}
			c.invalidate(mcp.Change{Kind: mcp.KindTool})
			for i := range entries {
				c.invalidate(mcp.Change{Kind: mcp.KindResource, URI: strconv.Itoa(i)})
			}
			if n := held(); n != 0 || c.size != 0 {
				t.Errorf("%d entries of %d bytes are held after all have changed", n, c.size)
			}
		})
	}
	t.Run("equivalent URIs", func(t *testing.T) {
		for _, change := range []string{"app://shop/a%2Fb", "APP://Shop/%61%2fb", "APP://shop", "app://shop/a%2Fb/part"} {
			for _, read := range []string{"app://shop/a%2Fb", "App://SHOP/a%2fb", "app://shop/%61%2fb"} {
				var c cache
				key := cacheKey{mcp.MethodResourcesRead, read}
				c.put(key, []byte("{}"), time.Hour, c.generation())
				c.invalidate(mcp.Change{Kind: mcp.KindResource, URI: "app://shop/A%2Fb"})
				if _, ok := c.get(key); !ok {
					t.Errorf("%s is not kept although another resource has changed", read)
				}
				c.invalidate(mcp.Change{Kind: mcp.KindResource, URI: change})
				if _, ok := c.get(key); ok {
					t.Errorf("%s is kept although %s has changed", read, change)
				}
			}
		}
	})
	t.Run("one that is too large", func(t *testing.T) {
		var c cache
		key := cacheKey{mcp.MethodResourcesRead, "a:1"}
		c.put(key, make([]byte, maxCached), time.Hour, c.generation())
		if _, ok := c.get(key); ok || c.size != 0 {
			t.Errorf("it was kept: %d bytes", c.size)
		}
	})
}
