"""What this user's runs left behind for later ones: their commands, and how predictions did."""
