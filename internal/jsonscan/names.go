package jsonscan

// names are those of the objects that are open, by how deep they lie. nil keeps
// none.
type names struct {
	levels []*Keys // used again by the next object of the same depth
}

// open returns the keys of an object that begins at that depth.
func (n *names) open(depth int) *Keys {
	if n == nil {
		return nil
	}
	for len(n.levels) <= depth {
		n.levels = append(n.levels, nil)
	}
	if n.levels[depth] == nil {
		n.levels[depth] = new(Keys)
	}
	n.levels[depth].Reset()
	return n.levels[depth]
}

// at returns the keys of the object that is open at that depth.
func (n *names) at(depth int) *Keys {
	if n == nil {
		return nil
	}
	return n.levels[depth]
}
