"""Operations with numbers: what each kind gives, and its true gradients."""
