package bakery

// Price is that of some loaves, in francs.
func Price(loaves int) int { return loaves * 3 }
