namespace Tau.Core
{
    /// <summary>`training status`: show the central report.</summary>
    public sealed class StatusCommand : ConsoleCommand
    {
    }
}
