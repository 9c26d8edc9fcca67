package oauth

import (
	"container/list"
	"sync"
	"time"
)

// grantCache keeps grants by the hash of their token for a while, the latest ones.
type grantCache struct {
	most int

	mu     sync.Mutex
	byKey  map[[32]byte]*list.Element
	oldest *list.List // of *cachedGrant, the oldest in front
}

type cachedGrant struct {
	key   [32]byte
	grant *Grant
	until time.Time
}

func newGrantCache(most int) *grantCache {
	return &grantCache{most: most, byKey: make(map[[32]byte]*list.Element), oldest: list.New()}
}

// find returns a grant that is still good, nil if there is none.
func (c *grantCache) find(key [32]byte, now time.Time) *Grant {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.byKey[key]
	if element == nil {
		return nil
	}
	cached := element.Value.(*cachedGrant)
	if !now.Before(cached.until) {
		c.drop(element)
		return nil
	}
	return cached.grant
}

// keep keeps a grant for so long, or until it ends.
func (c *grantCache) keep(key [32]byte, grant *Grant, now time.Time, life time.Duration) {
	until := now.Add(life)
	if !grant.Expires.IsZero() && grant.Expires.Before(until) {
		until = grant.Expires
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if element := c.byKey[key]; element != nil {
		c.drop(element)
	}
	c.byKey[key] = c.oldest.PushBack(&cachedGrant{key, grant, until})
	for c.oldest.Len() > c.most {
		c.drop(c.oldest.Front())
	}
}

func (c *grantCache) drop(element *list.Element) {
	delete(c.byKey, element.Value.(*cachedGrant).key)
	c.oldest.Remove(element)
}
