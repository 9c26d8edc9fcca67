package policy

// A truth is whether something holds, as far as can be told: Kleene's logic of three
// values, where and is the lesser, or the greater.
type truth uint8

const (
	no truth = iota
	unknown
	yes
)

func (t truth) not() truth { return yes - t }

func of(holds bool) truth {
	if holds {
		return yes
	}
	return no
}
