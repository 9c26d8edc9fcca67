package console

import "container/list"

// A shelf keeps items whose sizes together have a limit. One holder has at most half of it. A new item displaces the oldest
// ones, of its holder first if that has too much. The items of a shelf are not changed by others.
type shelf struct {
	limit    int
	displace func(item any) // called for each item that is displaced
	size     int
	items    list.List // of *shelved, the oldest first
	holders  map[string]*holder
}

type shelved struct {
	item              any
	size              int
	holder            *holder
	inShelf, ofHolder *list.Element
}

// A holder has the items of one principal.
type holder struct {
	name  string
	size  int
	items list.List // of *shelved, the oldest first
}

func newShelf(limit int, displace func(item any)) *shelf {
	return &shelf{limit: limit, displace: displace, holders: make(map[string]*holder)}
}

// add adds an item, and displaces others. An item that is too large displaces itself.
func (s *shelf) add(name string, item any, size int) *shelved {
	h := s.holders[name]
	if h == nil {
		h = &holder{name: name}
		s.holders[name] = h
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
	for i.holder.size > s.limit/2 {
		s.remove(i.holder.items.Front().Value.(*shelved))
	}
	for s.size > s.limit {
		s.remove(s.items.Front().Value.(*shelved))
	}
}

func (s *shelf) remove(i *shelved) {
	s.items.Remove(i.inShelf)
	i.holder.items.Remove(i.ofHolder)
	i.holder.size -= i.size
	s.size -= i.size
	if i.holder.items.Len() == 0 {
		delete(s.holders, i.holder.name)
	}
	s.displace(i.item)
}
