"""Other frameworks: each part imports what it joins, and nothing else imports them."""
