package planted

import "time"

func clock(at time.Time, d time.Duration) {
	_ = time.Unix(0, 0)               // want "Unix drops"
	_, _ = time.Parse("", "")         // want "Parse drops"
	_ = at.UTC()                      // want "UTC drops"
	_ = at.Round(0)                   // want "Round drops"
	_ = at.Truncate(time.Millisecond) // want "Truncate drops"
	_ = at.Add(d)
	_ = time.Now()
}
