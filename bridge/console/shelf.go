package console

import (
	"container/list"

	"github.com/dovetail-go/dovetail/internal/quota"
)

// A shelf keeps items up to a total size. If there is no room for a new item, it displaces the oldest ones: those of the client
// that has more than half, if there is one.
type shelf struct {
	limit    int
	most     *holder        // the holder with more than half, nil for none
	displace func(item any) // called for each item that is displaced
	size     int
	items    list.List // of *shelved, the oldest first
	holders  map[quota.Holder]*holder
}

type shelved struct {
	item              any
	size              int
	holder            *holder
	inShelf, ofHolder *list.Element
}

// A holder has the items of one client.
type holder struct {
	of    quota.Holder
	size  int
	items list.List // of *shelved, the oldest first
}

func newShelf(limit int, displace func(item any)) *shelf {
	return &shelf{limit: limit, displace: displace, holders: make(map[quota.Holder]*holder)}
}

// add adds an item, and displaces others. An item that is too large displaces itself.
func (s *shelf) add(of quota.Holder, item any, size int) *shelved {
	h := s.holders[of]
	if h == nil {
		h = &holder{of: of}
		s.holders[of] = h
	}
	added := &shelved{item: item, holder: h}
	added.inShelf, added.ofHolder = s.items.PushBack(added), h.items.PushBack(added)
	s.grow(added, size)
	return added
}

// grow adds to the size of an item.
func (s *shelf) grow(i *shelved, size int) {
	i.size += size
	i.holder.size += size
	s.size += size
	if i.holder.size > s.limit/2 {
		s.most = i.holder
	}
	for s.size > s.limit {
		items := &s.items
		if s.most != nil {
			items = &s.most.items
		}
		s.remove(items.Front().Value.(*shelved))
	}
}

func (s *shelf) remove(i *shelved) {
	s.items.Remove(i.inShelf)
	i.holder.items.Remove(i.ofHolder)
	i.holder.size -= i.size
	s.size -= i.size
	if s.most == i.holder && i.holder.size <= s.limit/2 {
		s.most = nil
	}
	if i.holder.items.Len() == 0 {
		delete(s.holders, i.holder.of)
	}
	s.displace(i.item)
}
