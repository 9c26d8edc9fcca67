package oauth

import (
	"container/list"
	"sync"
	"time"
)

// An answerCache keeps answers by the hash of their token for a while, the latest ones.
type answerCache[V any] struct {
	most int

	mu     sync.Mutex
	byKey  map[[32]byte]*list.Element
	oldest *list.List // of *cachedAnswer[V], the oldest in front
}

type cachedAnswer[V any] struct {
	key    [32]byte
	answer V
	until  time.Time
}

func newAnswerCache[V any](most int) *answerCache[V] {
	return &answerCache[V]{most: most, byKey: make(map[[32]byte]*list.Element), oldest: list.New()}
}

// find returns an answer that is still good.
func (c *answerCache[V]) find(key [32]byte, now time.Time) (answer V, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	element := c.byKey[key]
	if element == nil {
		return answer, false
	}
	cached := element.Value.(*cachedAnswer[V])
	if !now.Before(cached.until) {
		c.drop(element)
		return answer, false
	}
	return cached.answer, true
}

// keep keeps an answer until a time.
func (c *answerCache[V]) keep(key [32]byte, answer V, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if element := c.byKey[key]; element != nil {
		c.drop(element)
	}
	c.byKey[key] = c.oldest.PushBack(&cachedAnswer[V]{key, answer, until})
	for c.oldest.Len() > c.most {
		c.drop(c.oldest.Front())
	}
}

func (c *answerCache[V]) drop(element *list.Element) {
	delete(c.byKey, element.Value.(*cachedAnswer[V]).key)
	c.oldest.Remove(element)
}
