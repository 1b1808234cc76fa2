"""The verb `fit`: whether a training step fits into a card, before the card is rented."""
