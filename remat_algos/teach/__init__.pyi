from .exercises import Exercise as Exercise
from .exercises import exercise as exercise
