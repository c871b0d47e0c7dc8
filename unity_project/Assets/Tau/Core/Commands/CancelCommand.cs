namespace Tau.Core
{
    /// <summary>`training cancel`: end all pairs, now.</summary>
    public sealed class CancelCommand : ConsoleCommand
    {
    }
}
