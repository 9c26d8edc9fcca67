package planted

type Mode int // want "Mode has constants and no method String"

const Fast Mode = 1

type Shape uint8

const Round Shape = iota

func (s Shape) String() string { return "round" }

type Bytes int64

const Limit = 1 << 20

type Name string

const Nobody Name = ""

type hidden int

const none hidden = 0
