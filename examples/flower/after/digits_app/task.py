"""The network, the data and the training: plain PyTorch."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    """A small convolutional network with batch normalisation."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 16, 128)
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        """Class scores (N, 10) of images (N, 1, 8, 8)."""
        x = torch.relu(self.norm(self.conv1(x)))
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


def load_data(partition_id, num_partitions):
    """A client's images, in batches for training and for testing."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    mine = slice(partition_id, None, num_partitions)
    data = TensorDataset(images[mine], labels[mine])
    cut = int(0.8 * len(data))
    train = DataLoader(torch.utils.data.Subset(data, range(cut)), batch_size=16, shuffle=True)
    test = DataLoader(torch.utils.data.Subset(data, range(cut, len(data))), batch_size=64)
    return train, test


def train(net, loader, epochs, lr):
    """Some epochs of SGD; the mean loss."""
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    net.train()
    losses = []
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return sum(losses) / len(losses)


@torch.no_grad()
def test(net, loader):
    """Mean loss and share of right answers."""
    net.eval()
    loss, right, count = 0.0, 0, 0
    for x, y in loader:
        out = net(x)
        loss += cross_entropy(out, y, reduction="sum").item()
        right += (out.argmax(1) == y).sum().item()
        count += len(y)
    return loss / count, right / count
