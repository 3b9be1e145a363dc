"""The command ``poprun``, which starts several instances of a program: ``poprun --num-instances 2 python train.py``."""
