"""Reading from elsewhere: one policy of waiting and trying again, and the few ways in which bytes arrive."""
