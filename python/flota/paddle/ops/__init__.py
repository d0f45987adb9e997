"""Operations, by what they are about."""
